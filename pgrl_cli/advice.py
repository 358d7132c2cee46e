"""What depends on other values: the usual choice where a config makes none, and what runs but probably not as meant."""

from collections.abc import Iterator, Mapping
from typing import Any

from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.registry import cut_off


def usual_estimator(placement: Any) -> str:
    """Where the config names none: the lecture's in the loss, the unbiased one in the reward."""
    return "k1" if placement == "reward" else "k3"


def advice(values: Mapping[str, Any]) -> Iterator[str]:
    """What runs, but probably not as meant."""
    if values["steps_per_epoch"] == 1 and cut_off(LOSSES[values["loss_mode"]]):
        yield (
            f"loss_mode {values['loss_mode']} with steps_per_epoch 1 never clips: on an epoch's first step "
            "every ratio is exactly 1"
        )
    if values["kl_placement"] == "loss" and values["kl_coefficient"] > 0 and values["kl_estimator"] == "k1":
        yield (
            "kl_estimator k1 in the loss pulls nowhere on an epoch's first step, where its expected gradient is zero, "
            "and on later steps it pushes down whatever was sampled"
        )
    if values["kl_placement"] == "reward" and values["kl_estimator"] != "k1":
        yield (
            f"kl_estimator {values['kl_estimator']} in the reward does not follow the KL's gradient; there, k1 is the "
            "unbiased choice"
        )
