"""What all tests share."""

import torch

torch.set_num_threads(1)  # on tensors this small two threads are up to ten times slower than one
