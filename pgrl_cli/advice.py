"""What depends on other values: the usual choice where a config makes none, and what runs but probably not as meant."""

from collections.abc import Iterator, Mapping
from typing import Any

from pgrl_cli.dead_keys import OF_THE_CRITIC, asks_for_values, has_rate
from pgrl_cli.equations.losses import LOSSES
from pgrl_cli.registry import cut_off
from pgrl_cli.words import TABLES


def usual_estimator(placement: Any) -> str:
    """Where the config names none: the lecture's in the loss, the unbiased one in the reward."""
    return "k1" if placement == "reward" else "k3"


def of_the_critic(values: Mapping[str, Any]) -> dict[str, str | None]:
    """The critic's words where the config has none: a critic only where the delta mode asks for values."""
    if not asks_for_values(values["delta_mode"]):
        return dict.fromkeys(OF_THE_CRITIC)
    optimizer = values["optimizer"] if values["optimizer"] in TABLES["critic_optimizer"] else "adam"
    usual = {"critic": "separate", "value_target": "lambda_return", "critic_optimizer": optimizer}
    return {key: values[key] or word for key, word in usual.items()}


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
    if values["drop_zero_variance_groups"] and values["when_unfilled"] == "fill" and not values["resampling_rounds"]:
        yield "when_unfilled fill with resampling_rounds 0 drops no group: each is filled up with itself"
    if values["micro_batch"] is not None and not has_rate(values["optimizer"]):
        yield (
            f"micro_batch with optimizer {values['optimizer']} saves little memory: how far a step moves the policy is "
            "worked out on all prompts at once"
        )
