"""From words to a config that can run: what is dropped is told, and what is written down resolves to the same again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgrl_cli.config import KEYS, OTHER_WORDS, Config, ConfigError, Problem, yaml12
from pgrl_cli.config.layers import layers_of
from pgrl_cli.resolution import Resolved, resolve
from pgrl_cli.words import TABLES, every_knob, knobs_of, written

Resolve = Callable[..., Resolved]
Problems = Callable[..., list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    (folder / "own.py").write_text("def points(prompt, response):\n    return 1.0\n")
    return folder


def again(config: Config, folder: Path) -> Config:
    """The config that a run folder's config.yaml resolves to."""
    (folder / "config.yaml").write_text(written(config), encoding="utf-8")
    return resolve(layers_of("config.yaml", [], folder)).config


@pytest.mark.parametrize(
    ("text", "overrides", "dropped"),
    [
        ("loss_mode: clipped\nclip_epsilon: 0.1\n", ["loss_mode=naive"], ["clip_epsilon"]),
        ("loss_mode: clipped\nclip_epsilon: 0.1\n", ["clip_low=0.1", "clip_high=0.2"], ["clip_epsilon"]),
        ("optimizer: adamw\nweight_decay: 0.1\nadam_beta1: 0.5\n", ["optimizer=adam"], ["weight_decay"]),
        ("optimizer: adamw\nweight_decay: 0.1\nadam_beta1: 0.5\n", ["optimizer=sgd"], ["weight_decay", "adam_beta1"]),
        ("width: 3\n", ["policy=table"], ["width"]),
        ("average: budget_mean\ntoken_budget: 9\n", ["average=token_mean"], ["token_budget"]),
        ("entropy_coefficient: 0.1\nentropy_decay: linear\n", ["entropy_coefficient=0"], ["entropy_decay"]),
        ("prompts: [[1, 2]]\n", ["prompt_count=5"], ["prompts"]),
        ("prompts: [[1, 2]]\n", ["task=two_state"], ["prompts"]),
        ("prompts_per_epoch: 2\nprompts_seed: 3\n", ["prompts_per_epoch=null"], ["prompts_seed"]),
        ("prompt_count: 5\nprompt_length: 4\n", ["prompt_count=null"], ["prompt_length"]),
        ("prompt_count: 5\nprompt_length: 4\n", ["task=two_state"], ["prompt_count", "prompt_length"]),
        (
            "prompt_count: 5\nprompt_length: 4\nheld_out_count: 2\nprompts_seed: 3\n",
            ["prompts=[[1, 2]]"],
            ["prompt_count", "prompt_length", "held_out_count", "prompts_seed"],
        ),
        ("prompt_count: 5\nprompts_seed: 3\n", ["task=two_state"], ["prompt_count", "prompts_seed"]),
    ],
)
def test_a_knob_of_the_file_that_an_override_makes_dead_is_dropped_with_a_note(
    resolved: Resolve, tmp_path: Path, text: str, overrides: list[str], dropped: list[str]
) -> None:
    result = resolved(text, *overrides)
    told = [note for note in result.notes if "turns nothing here and was dropped" in note]
    assert sorted(note.partition(" ")[0] for note in told) == sorted(dropped)
    assert all("(from mine.yaml)" in note for note in told)
    assert not {f"{key}:" for key in dropped} & set(written(result.config).split())
    assert again(result.config, tmp_path) == result.config


def test_a_knob_of_a_base_that_the_file_makes_dead_is_dropped_with_a_note(resolved: Resolve) -> None:
    (note,) = resolved("base: lecture/centered_clipped\nloss_mode: unclipped\n").notes
    assert note.startswith("clip_epsilon (from ")
    assert "centered_clipped.yaml) turns nothing here and was dropped" in note


def test_a_dead_knob_written_above_the_word_is_a_mistake(problems: Problems) -> None:
    (problem,) = problems("base: lecture/centered_naive\nclip_epsilon: 0.1\n")
    assert problem.startswith("mine.yaml:2: clip_epsilon turns nothing here")


def test_a_knob_lives_again_where_a_higher_layer_names_its_word(resolved: Resolve, tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("loss_mode: naive\nclip_epsilon: 0.1\n")
    assert resolved("base: low.yaml\nloss_mode: clipped\n").config.knobs["clip_epsilon"] == 0.1


def test_clipping_with_one_step_per_epoch_is_warned_of_and_runs(resolved: Resolve) -> None:
    (note,) = resolved("loss_mode: clipped\nsteps_per_epoch: 1\n").notes
    assert "clipped with steps_per_epoch 1 never clips" in note
    assert resolved("loss_mode: clipped\nsteps_per_epoch: 2\n").notes == ()
    assert resolved("loss_mode: unclipped\nsteps_per_epoch: 1\n").notes == ()


def test_k1_in_the_loss_is_warned_of_and_runs(resolved: Resolve) -> None:
    (note,) = resolved("kl_coefficient: 0.1\nkl_estimator: k1\n").notes
    assert "expected gradient is zero" in note
    assert resolved("kl_coefficient: 0.1\nkl_estimator: k1\nkl_placement: reward\n").notes == ()
    assert resolved("kl_coefficient: 0.1\n").notes == ()


@pytest.mark.parametrize(("placement", "estimator"), [("loss", "k3"), ("reward", "k1")])
def test_the_estimator_is_chosen_by_the_kls_place(resolved: Resolve, placement: str, estimator: str) -> None:
    config = resolved(f"kl_coefficient: 0.1\nkl_placement: {placement}\n").config
    assert config.kl_estimator == estimator
    assert resolved(f"kl_coefficient: 0.1\nkl_placement: {placement}\nkl_estimator: k2\n").config.kl_estimator == "k2"


def test_what_is_written_holds_every_live_key_and_no_dead_one(resolved: Resolve) -> None:
    config = resolved("loss_mode: clipped\nclip_low: 0.1\n").config
    mapping = yaml12.read(written(config), "config.yaml")
    live = {*KEYS, *knobs_of(config.settings)} - {"entropy_decay", "prompts_seed", "log_seeds", "reward_timeout"}
    live -= {"prompt_count", "prompt_length", "held_out_count", "shortest_prompt"}  # prompts are listed
    live -= {"max_response_tokens", "overlong_margin"}  # and no response has an end
    live -= {"critic", "value_target", "value_clip", "value_coefficient", "truncation"}
    live -= {"critic_optimizer", "critic_learning_rate", "old_kl_target", "resampling_rounds", "when_unfilled"}
    assert set(mapping) == live
    assert (mapping["clip_epsilon"], mapping["clip_low"], mapping["clip_high"]) == (0.2, 0.1, None)
    assert mapping["prompts"] == [[1, 0, 2], [3, 2, 4], [1, 2, 3]]
    assert mapping["vocab_size"] == 5
    assert mapping["reward_fn"] == "sort_inclusion_ordering_reward"
    assert mapping["kl_estimator"] == "k3"


ENDING = ["copy", "reverse", "addition", "multiplication", "countdown", "parity"]


@pytest.mark.parametrize("reward", ["", "overlong_penalty", "{exact: 1, overlong_penalty: 1}"])
@pytest.mark.parametrize("task", [*ENDING, "sorting\nprompt_count: 4\nshortest_prompt: 1"])
def test_what_is_written_of_a_task_with_ends_is_that_config_again(resolved: Resolve, task: str, reward: str) -> None:
    config = resolved(f"task: {task}\nmax_response_tokens: 20\nreward_fn: {reward or 'exact'}\n").config
    again = resolved(written(config)).config
    assert again == config
    mapping = yaml12.read(written(config), "config.yaml")
    assert mapping["max_response_tokens"] == 20
    assert ("overlong_margin" in mapping) == bool(reward)
    assert "prompts" not in mapping
    if reward:
        assert 0 < mapping["overlong_margin"] < 20


def test_defaults_that_a_task_with_ends_knows_are_written_out(resolved: Resolve) -> None:
    told = resolved("task: reverse\nreward_fn: overlong_penalty\n").config.knobs
    assert (told["max_response_tokens"], told["overlong_margin"], told["held_out_count"]) == (4, 0, 52)
    generated = resolved("prompt_count: 4\nshortest_prompt: 1\n").config.knobs
    assert (generated["vocab_size"], generated["max_response_tokens"]) == (10, 4)  # the end is none of the numbers


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("task: addition\ndigits: 2\noverlong_margin: 1\n", "3: overlong_margin turns nothing here: reward_fn has no"),
        ("prompt_count: 5\nmax_response_tokens: 9\n", "2: max_response_tokens turns nothing here: without shortest_"),
        ("shortest_prompt: 2\n", "1: shortest_prompt turns nothing here: prompts are not generated"),
        ("task: copy\nprompt_count: 5000\n", "2: prompt_count: 5000 prompts and 0 held out are more than the 84"),
        ("task: copy\nmax_response_tokens: 3\n", "2: max_response_tokens: came 3; the longest solution"),
        ("task: copy\nvocab_size: 63\n", "2: vocab_size: came 63; expected a whole number from 1, up to 62"),
        ("task: copy\nprompt_count: null\n", "2: prompt_count: came null; expected a whole number from 1"),
        ("task: parity\nscratchpad: 1\n", "2: scratchpad: came 1; expected true or false"),
    ],
)
def test_knobs_of_tasks_are_checked_by_the_task_that_has_them(problems: Problems, text: str, told: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"mine.yaml:{told}")


def test_knobs_of_generated_prompts_live_without_a_count_where_prompts_are_always_generated(resolved: Resolve) -> None:
    config = resolved("task: copy\nprompt_length: 4\nheld_out_count: 7\nprompts_seed: 3\n").config
    assert (config.knobs["prompt_length"], config.knobs["held_out_count"], config.prompts_seed) == (4, 7, 3)


def test_each_knob_is_written_below_the_word_it_belongs_to(resolved: Resolve) -> None:
    keys = list(yaml12.read(written(resolved("loss_mode: clipped\noptimizer: sgd\n").config), "config.yaml"))
    assert keys.index("clip_epsilon") == keys.index("loss_mode") + 1
    assert keys.index("momentum") == keys.index("optimizer") + 1


def test_whole_numbers_become_floats_where_any_number_may_stand(resolved: Resolve) -> None:
    config = resolved(
        "learning_rate: 1\nreward_fn: {sort_exact_reward: 2}\nloss_mode: clipped\nclip_epsilon: 1\n"
    ).config
    assert isinstance(config.learning_rate, float)
    assert isinstance(config.weights()["sort_exact_reward"], float)
    assert isinstance(config.knobs["clip_epsilon"], float)


def test_a_config_never_changes(resolved: Resolve) -> None:
    config = resolved("seed: 1\n").config
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 2


GOOD: dict[str, list[Any]] = {
    "name": ["no", "1e-3", "é→🎉", "x: y", " a", "\n", "#"],
    "task": ["sorting"],
    "reward_fn": [None, "sort_exact_reward", {"sort_exact_reward": 1, "sort_distance_reward": -0.5}, "own.py:points"],
    "reward_scale": [2, 1e-300, 1e300],
    "prompts": [None, [[1, 2]], [[0], [3]]],
    "prompt_count": [1, 5, None],
    "prompt_length": [1, 4],
    "vocab_size": [5, 7, None],
    "held_out_count": [0, 3, None],
    "prompts_seed": [0, 3],
    "prompts_per_epoch": [None, 1, 2],
    "policy": ["positional", "table"],
    "width": [3],
    "delta_mode": list(TABLES["delta_mode"]),
    "loss_mode": list(TABLES["loss_mode"]),
    "clip_epsilon": [0.1, None],
    "clip_low": [0.1, None],
    "clip_high": [0.2, None],
    "dual_clip": [3, None],
    "average": list(TABLES["average"]),
    "token_budget": [3, 2.5],
    "kl_coefficient": [0.0, 0.1, 1],
    "kl_placement": ["loss", "reward"],
    "kl_estimator": [None, *TABLES["kl_estimator"]],
    "kl_average": list(TABLES["kl_average"]),
    "reference_period": [0, 3],
    "entropy_coefficient": [0, 0.1],
    "entropy_decay": ["linear", "none"],
    "optimizer": list(TABLES["optimizer"]),
    "critic": [None, "shared", "separate"],
    "value_target": [None, *TABLES["value_target"]],
    "critic_optimizer": [None, *TABLES["critic_optimizer"]],
    "critic_learning_rate": [0.1],
    "value_clip": [None, 0.5],
    "value_coefficient": [0, 2],
    "truncation": ["bootstrap", "end"],
    "gae_lambda": [0, 0.5],
    "discount": [0.5, 1],
    "kl_level": ["token", "sequence"],
    "kl_target": [None, 2],
    "kl_horizon": [50],
    "old_kl_coefficient": [0, 0.1],
    "old_kl_target": [None, 0.01],
    "rollout_reuse": [1, 3],
    "drop_zero_variance_groups": [True, False],
    "resampling_rounds": [0, 2],
    "when_unfilled": ["fewer", "fill"],
    "micro_batch": [None, 1, 9],
    "learning_rate_warmup": [0, 3],
    "max_gradient_norm": [None, 1],
    "max_kl": [0.1],
    "warm_start": [None, {"epochs": 2}, {"epochs": 1, "learning_rate": 1, "prompts": 1}],
    "momentum": [0, 0.9],
    "weight_decay": [0.1],
    "adam_beta1": [0.5],
    "seed": [0, 2**63 - 1],
    "dtype": ["float64"],
}
DEPENDING = {
    "clip_epsilon": ("loss_mode", ["clipped"]),
    "clip_low": ("loss_mode", ["clipped"]),
    "clip_high": ("loss_mode", ["clipped"]),
    "dual_clip": ("loss_mode", ["clipped"]),
    "token_budget": ("average", ["budget_mean"]),
    "momentum": ("optimizer", ["sgd"]),
    "weight_decay": ("optimizer", ["adamw"]),
    "adam_beta1": ("optimizer", ["adam", "adamw"]),
    "width": ("policy", ["positional"]),
    "entropy_decay": ("entropy_coefficient", [0.1]),
    "prompt_length": ("prompt_count", [1, 5]),
    "held_out_count": ("prompt_count", [1, 5]),
    **{key: ("delta_mode", ["gae", "n_step"]) for key in ("critic", "value_target", "critic_optimizer", "value_clip")},
    "critic_learning_rate": ("delta_mode", ["gae"]),
    "value_coefficient": ("critic", ["shared"]),
    "gae_lambda": ("delta_mode", ["gae"]),
    "discount": ("delta_mode", ["gae", "reward_to_go"]),
    "old_kl_target": ("old_kl_coefficient", [0.1]),
    "resampling_rounds": ("drop_zero_variance_groups", [True]),
    "when_unfilled": ("drop_zero_variance_groups", [True]),
    "max_kl": ("optimizer", ["trpo"]),
}
"""Keys that live only beside certain others."""


@st.composite
def likely_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Keys with what lets them live; most of these can run."""
    chosen = draw(st.lists(st.sampled_from(list(GOOD)), unique=True, max_size=8))
    config = {key: draw(st.sampled_from(GOOD[key])) for key in chosen}
    for key in [key for key in config if key in DEPENDING]:
        other, values = DEPENDING[key]
        if config.get(other) not in values:
            config[other] = draw(st.sampled_from(values))
    return config


@settings(max_examples=150, deadline=None, derandomize=True)
@example({"loss_mode": "clipped", "clip_low": 0.1, "clip_high": 0.2}, {})
@example({"prompt_count": 5, "prompt_length": 4, "held_out_count": 3, "prompts_seed": 3}, {"vocab_size": 7})
@example({"kl_coefficient": 0.1, "kl_placement": "reward"}, {"kl_average": "budget_mean"})
@example({"average": "budget_mean"}, {"prompts": [[0], [3]]})
@example({"name": "\x85"}, {})
@given(low=likely_configs(), high=likely_configs())
def test_what_is_written_resolves_to_an_equal_config(folder: Path, low: dict[str, Any], high: dict[str, Any]) -> None:
    (folder / "low.yaml").write_text(yaml12.write(low), encoding="utf-8")
    (folder / "high.yaml").write_text(yaml12.write({"base": "low.yaml"} | high), encoding="utf-8")
    try:
        config = resolve(layers_of("high.yaml", [], folder)).config
    except ConfigError:
        return
    assert again(config, folder) == config


def test_most_likely_configs_can_run_so_that_the_test_above_means_something(folder: Path) -> None:
    seen = []

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(likely_configs())
    def count(config: dict[str, Any]) -> None:
        (folder / "likely.yaml").write_text(yaml12.write(config), encoding="utf-8")
        try:
            resolve(layers_of("likely.yaml", [], folder))
        except ConfigError:
            seen.append(False)
        else:
            seen.append(True)

    count()
    assert sum(seen) > len(seen) / 4


NAMES = [word for functions in TABLES.values() for word in functions]
NAMES += ["sort_exact_reward", "two_state_reward", "own.py:points", "own.py:other", "none.py:x", "linear", "reward"]
some_keys = st.sampled_from([*KEYS, *every_knob(), "base"]) | st.sampled_from([*OTHER_WORDS]) | st.text(max_size=5)
numbers = st.integers(-3, 12)
some_values = st.sampled_from(NAMES) | numbers | st.floats() | st.none() | st.booleans() | st.text(max_size=8)
some_values |= st.lists(st.lists(numbers, max_size=3), max_size=4) | st.lists(st.sampled_from(NAMES), max_size=2)
some_values |= st.dictionaries(st.sampled_from(NAMES), numbers | st.booleans(), max_size=2)


def resolved_or_refused(text: str, overrides: list[str], folder: Path) -> None:
    (folder / "any.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    problems: tuple[Problem, ...] = ()
    try:
        result = resolve(layers_of("any.yaml", overrides, folder))
    except ConfigError as error:
        result, problems = None, error.problems
    assert isinstance(result, Resolved) or problems
    assert all(problem.message and problem.file for problem in problems)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    mapping=st.dictionaries(some_keys, some_values, max_size=5),
    overrides=st.lists(st.tuples(some_keys, some_values), max_size=3),
)
def test_any_keys_with_any_values_are_a_config_or_a_config_error(
    folder: Path, mapping: dict[str, Any], overrides: list[tuple[str, Any]]
) -> None:
    typed = [f"{key}={yaml12.write({'a': value})[3:].strip()}" for key, value in overrides]
    resolved_or_refused(yaml12.write(mapping), typed, folder)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    text=st.text(),
    overrides=st.lists(st.text() | st.builds("{}={}".format, some_keys, st.text(max_size=10)), max_size=3),
)
def test_any_text_is_a_config_or_a_config_error(folder: Path, text: str, overrides: list[str]) -> None:
    resolved_or_refused(text, overrides, folder)


@pytest.mark.parametrize(
    "text",
    [
        "prompts: [[99999999999999999999, 1]]\n",
        f"prompt_count: 5\nvocab_size: {'9' * 30}\n",
        "prompt_count: 1000000000000\nprompt_length: 30\n",
        "prompt_count: 5\nheld_out_count: 1000000000000\nprompt_length: 30\n",
        'reward_fn: "a\\0.py:points"\n',
        f"reward_fn: {'x' * 300}.py:points\n",
        f"base: {'x' * 300}\n",
        f"learning_rate: {'9' * 500}\n",
        f"reward_shift: -{'9' * 500}\n",
        f"seed: {'9' * 3000}\n",
        f"epochs: 0x{'f' * 900}\n",
        "reward_fn: {sort_exact_reward: 1e999}\n",
    ],
    ids=lambda text: text[:40],
)
def test_an_extreme_value_is_a_config_error(problems: Problems, text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("mine.yaml:")


def test_extreme_names_are_a_config_error(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b", "/", "\udc80", "~"):
        with pytest.raises(ConfigError):
            resolve(layers_of(name, [], tmp_path))


def test_a_file_whose_name_is_no_unicode_is_a_config_or_a_config_error(tmp_path: Path) -> None:
    name = b"\xff.yaml".decode("utf-8", "surrogateescape")
    (tmp_path / name).write_text("seed: 1\n")
    try:
        config = resolve(layers_of(name, [], tmp_path)).config
    except ConfigError:
        return
    assert written(config).encode()
