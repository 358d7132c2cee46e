"""The work that `against_trl.py` measures, done by TRL and by us: what either side tells of a series of steps.

TRL is imported only where it runs, and nothing heavy before that: the start counts.
"""

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

PROMPTS, RESPONSES, TOKENS = 8, 8, 5
DIGITS = 10
WIDTH, LAYERS, HEADS = 32, 2, 2
LEARNING_RATE = 3e-3
COUNTED = 5
"""Steps, the first, whose tokens are counted; none of them is timed, because counting takes time."""
OURS = {
    "task": "sorting",
    "vocab_size": DIGITS,
    "num_responses": RESPONSES,
    "reward_fn": "sort_distance_reward",
    "delta_mode": "normalized_rewards",
    "loss_mode": "clipped",
    "steps_per_epoch": 1,
    "learning_rate": LEARNING_RATE,
    "policy": "transformer",
    "width": WIDTH,
    "layers": LAYERS,
    "heads": HEADS,
    "eval_period": 0,
    "device": "cpu",
}


class Stamp(NamedTuple):
    """When a step had ended: the processor's seconds since the process began, and the clock's."""

    processor: float
    clock: float


class Series(NamedTuple):
    """What a side tells of its steps."""

    stamps: list[Stamp]
    rewards: list[float]
    """The mean reward of each step, over all runs."""
    read: tuple[int, int]
    """Tokens that the model read per step and run: while it wrote or only looked on, and to learn from them."""
    updates: int
    """Of the optimizer, in each run."""


class Steps:
    """Notes when steps end and what they earned, and counts the tokens that the first of them read."""

    def __init__(self, runs: int = 1) -> None:
        self.runs = runs
        self.stamps: list[Stamp] = []
        self.rewards: list[float] = []
        self.read = {False: 0, True: 0}

    def see(self, tokens: int, learns: bool) -> None:
        if len(self.stamps) < COUNTED:
            self.read[learns] += tokens

    def end(self) -> None:
        self.stamps.append(Stamp(time.process_time(), time.time()))

    def series(self, updates: int) -> Series:
        counted = min(COUNTED, len(self.stamps)) * self.runs
        return Series(self.stamps, self.rewards, (self.read[False] // counted, self.read[True] // counted), updates)


def prompts() -> list[list[int]]:
    """The same ones for both: lists of digits, drawn once."""
    draw = random.Random(0)
    return [[draw.randrange(DIGITS) for _ in range(TOKENS)] for _ in range(PROMPTS)]


def by_trl(steps: int) -> Series:
    """So many steps of TRL's trainer."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    torch.set_num_threads(1)
    told = Steps()

    def right_places(completions: list[str], solution: list[str], **_: object) -> list[float]:
        pairs = zip(completions, solution, strict=True)
        points = [float(sum(a == b for a, b in zip(said, right, strict=True))) for said, right in pairs]
        told.rewards.append(statistics.fmean(points))
        return points

    class Watch(TrainerCallback):
        def on_step_end(self, *given: object, **named: object) -> None:
            told.end()

    model = gpt2()
    model.transformer.wte.register_forward_pre_hook(
        lambda module, given: told.see(given[0].numel(), torch.is_grad_enabled())
    )
    asked = ["".join(map(str, prompt)) for prompt in prompts()]
    rows = {"prompt": asked * steps, "solution": ["".join(sorted(prompt)) for prompt in asked] * steps}
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            args=grpo_config(folder, steps),
            reward_funcs=right_places,
            train_dataset=Dataset.from_dict(rows),  # so long that it is gone through once
            processing_class=digits_tokenizer(),
            callbacks=[Watch()],
        )
        trainer.train()
    return told.series(trainer.state.global_step)


def gpt2() -> Any:
    """A GPT-2 of our transformer's shape. Its vocabulary is the digits: no response ends early."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
    shape = {"n_positions": 2 * TOKENS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    return GPT2LMHeadModel(GPT2Config(vocab_size=DIGITS, **shape, **none)).float()


def digits_tokenizer() -> Any:
    """A token for each digit, and one more, which TRL wants and the model does not know."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"{digit}": digit for digit in range(DIGITS)} | {"<end>": DIGITS}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")


def grpo_config(folder: str, steps: int) -> Any:
    """One step per rollout, and what is not the work switched off."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=PROMPTS * RESPONSES,
        num_generations=RESPONSES,
        max_completion_length=TOKENS,
        shuffle_dataset=False,
        beta=0.0,
        scale_rewards="group",
        loss_type="dapo",  # the mean over tokens
        epsilon=0.2,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=0.0,
        optim="adamw_torch_fused",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )


def by_us(steps: int, runs: int = 1, files: bool = True) -> Series:
    """So many epochs of one run, or of a stack, by `experiment.run` or by the trainer alone."""
    import torch

    from pgrl_cli.config.layers import layers_from
    from pgrl_cli.resolution import resolve

    torch.set_num_threads(1)
    told = Steps(runs)
    count_rows(told)
    several = {} if runs == 1 else {"seeds": runs}
    resolved = resolve(layers_from(OURS | {"prompts": prompts(), "epochs": steps} | several))
    return told.series(written(resolved, told) if files else alone(resolved, told))


def count_rows(told: Steps) -> None:
    """Let a transformer tell how many tokens it reads: each is embedded once."""
    import torch
    from torch import Tensor

    from pgrl_cli.policies.transformer import TransformerPolicy

    embedded = TransformerPolicy.embedded

    def counted(policy: TransformerPolicy, tokens: Tensor, places: Tensor) -> Tensor:
        rows = embedded(policy, tokens, places)
        told.see(rows[..., 0].numel(), torch.is_grad_enabled())
        return rows

    TransformerPolicy.embedded = counted  # type: ignore[method-assign]


def written(resolved: Any, told: Steps) -> int:
    """Train with all files; how many updates they tell of."""
    from pgrl_cli import experiment

    def watch(done: int, mean_reward: float) -> None:
        told.rewards.append(mean_reward)
        told.end()

    with tempfile.TemporaryDirectory() as folder:
        made, _ = experiment.run(resolved, Path(folder), watch=watch)
        return (made.folder / "metrics.jsonl").read_bytes().count(b"\n")


def alone(resolved: Any, told: Steps) -> int:
    """Train without files; how many updates the state counts."""
    from pgrl_cli.assembly import assemble
    from pgrl_cli.training.trainer import train

    parts, state = assemble([resolved.config])
    for record in train(parts, resolved.config, state):
        told.rewards.append(float(record.numbers["mean_reward"].mean()))
        told.end()
    return state.steps
