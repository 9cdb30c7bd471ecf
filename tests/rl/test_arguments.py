"""The `grpo:` section: every key of GRPOConfig is honoured or refused by name."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from trl import GRPOConfig

from reasoning.config import ConfigError, load_settings
from reasoning.train_config import TrainConfig
from reasoning.train_plan import plan_training
from rl.arguments import REPORTERS, grpo_arguments
from rl.grpo_keys import HONOURED, INSTEAD, NOT_BUILT
from rl.losses import objective_from
from rl.rewards import load_reward
from tests.end_to_end import training

ROOT = Path(__file__).parents[2]


def arguments(**settings: object) -> GRPOConfig:
    return grpo_arguments(settings, out=Path("run"), seed=5, max_completion_length=77, rewards=1, use_cpu=True)


def test_what_is_listed_exists() -> None:
    known = {field.name for field in dataclasses.fields(GRPOConfig)}
    assert known >= HONOURED
    assert known >= INSTEAD.keys() | NOT_BUILT.keys()
    assert not HONOURED & (INSTEAD.keys() | NOT_BUILT.keys()) and not INSTEAD.keys() & NOT_BUILT.keys()


@pytest.mark.parametrize(
    "key", sorted({field.name for field in dataclasses.fields(GRPOConfig) if field.init} - HONOURED)
)
def test_what_is_not_honoured_is_refused_by_name(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"grpo\.{key} is not used here[;:] \w"):
        arguments(**{key: 1})


def test_text_of_the_command_line_becomes_what_it_says() -> None:
    args = arguments(learning_rate="1e-4", max_steps="7", mask_truncated_completions="true", loss_type="dr_grpo")
    assert (args.learning_rate, args.max_steps, args.mask_truncated_completions) == (1e-4, 7, True)
    assert args.max_completion_length == 77 and args.seed == 5


def test_a_generation_holds_whole_groups() -> None:
    args = arguments(per_device_train_batch_size=6, gradient_accumulation_steps=4, num_generations=8)
    assert args.generation_batch_size == 3 * 8
    with pytest.raises(ConfigError, match=r"is 20, which is no multiple of num_generations \(8\): write 16 or 24"):
        arguments(per_device_train_batch_size=10, gradient_accumulation_steps=2, num_generations=8)


def test_a_generation_is_made_by_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"x processes is 10, which is no multiple of num_generations \(4\)"):
        arguments(num_generations=4, per_device_train_batch_size=5)


def test_of_several_gpus_one_is_chosen_or_each_gets_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.raises(ConfigError, match=r"8 GPUs are visible.*CUDA_VISIBLE_DEVICES=0.*--num_processes 8"):
        arguments()


@pytest.mark.parametrize("key", ["load_in_4bit", "lora_modules_to_save", "lora_task_type", "bnb_4bit_quant_type"])
def test_what_is_not_built_of_adapters_is_refused_by_name(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"grpo\.{key} is not used here: \w"):
        arguments(**{key: True})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_vllm": False}, r"grpo\.use_vllm: false is not built"),
        ({"vllm_mode": "remote"}, r"grpo\.vllm_mode is 'remote'; use colocate or server"),
        ({"vllm_server_host": "gpu7"}, r"vllm_server_host is of a vLLM server; write grpo\.vllm_mode: server"),
        ({"vllm_mode": "server", "vllm_server_base_url": "gpu7:8000"}, r"is 'gpu7:8000'; write it as in http://"),
        ({"vllm_model_impl": "vllm"}, r"grpo\.vllm_model_impl is not used here; the engine's settings are in engine"),
        ({"fsdp": "full_shard"}, r"grpo\.fsdp is not used here; start with accelerate launch --use_fsdp"),
        ({"sync_ref_model": True}, r"grpo\.sync_ref_model is not used here: the reference stays fixed"),
        ({"repetition_penalty": 1.1}, "temperature, top_p, top_k and min_p"),
        ({"num_generations": 8.5}, r"grpo\.num_generations: 8\.5 is not a whole number"),
        ({"num_generations": 0}, r"grpo\.num_generations is 0; .* a group needs at least 2"),
        ({"num_generations": None}, r"grpo\.num_generations has no value"),
        ({"max_steps": None}, r"grpo\.max_steps has no value"),
        ({"max_steps": "many"}, "'many' is not a whole number"),
        ({"learning_rate": [1]}, r"grpo\.learning_rate: \[1\] is not a number"),
        ({"mask_truncated_completions": "perhaps"}, "'perhaps' is not true or false"),
        ({"reward_weights": 1}, "1 is not a list of numbers"),
        ({"scale_rewards": "sometimes"}, "scale_rewards is 'sometimes'; use group, batch or none"),
        ({"temperature": 0}, r"grpo\.temperature is 0; write more than 0"),
        ({"top_p": 1.5}, r"grpo\.top_p is 1\.5; write more than 0 and at most 1"),
        ({"max_steps": 0}, r"grpo\.max_steps is 0; write 1 or more, or leave it out for num_train_epochs"),
        ({"save_total_limit": -1}, r"grpo\.save_total_limit is -1; write 0 or more"),
        ({"adam_beta1": 1}, r"grpo\.adam_beta1 is 1; write 0 or more and less than 1"),
        ({"optim_args": "lr"}, r"with optim_args lr"),
        ({"lr_scheduler_kwargs": {"cycles": 2}}, r"with lr_scheduler_kwargs \{'cycles': 2\}, cannot be used: .*cycles"),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, "follows a measured loss"),
        ({"beta": -1}, r"grpo\.beta is -1; write 0 or more"),
        ({"per_device_train_batch_size": 0}, "write 1 or more"),
        ({"report_to": "wanbd"}, "'wanbd' is not known; use wandb, trackio, tensorboard or none"),
    ],
)
def test_values_that_cannot_be_used(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        arguments(**settings)


@pytest.mark.parametrize("value", [math.nan, math.inf, [[]], {"a": 1}, "[", "a: b: c"], ids=str)
@pytest.mark.parametrize("key", sorted(HONOURED))
def test_a_value_of_another_kind_is_refused_by_name(key: str, value: object) -> None:
    """Numbers that are none among them: learning rates, weights and bounds that are not finite."""
    texts = [field.name for field in dataclasses.fields(GRPOConfig) if "str" in str(field.type)]
    if isinstance(value, str) and key in texts:
        return
    beside = {"vllm_mode": "server"} if key.startswith(("vllm_server", "vllm_group")) else {}
    with pytest.raises(ConfigError, match=key):
        arguments(**beside, **{key: value})


@pytest.mark.parametrize("key", ["learning_rate", "max_steps", "delta", "num_generations"])
def test_a_truth_value_is_no_number(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"grpo\.{key}: True is not a"):
        arguments(**{key: True})


def test_a_text_stays_a_text_whatever_it_says_as_yaml() -> None:
    for name in ("5", "a: b", "[x", "1e-5"):
        assert arguments(run_name=name).run_name == name


def test_a_reporter_that_is_not_installed_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPORTERS, "wandb", "no_such_package_here")
    with pytest.raises(ConfigError, match="wandb is not installed"):
        arguments(report_to=["wandb"])


@pytest.mark.parametrize(("given", "meant"), [(True, "group"), (False, "none"), ("batch", "batch")])
def test_scale_rewards_as_trl_writes_it(given: object, meant: str) -> None:
    assert arguments(scale_rewards=given).scale_rewards == meant


@pytest.mark.parametrize("name", ["grpo", "grpo-h200", "grpo-gsm8k"])
def test_the_shipped_configurations_can_be_used(name: str) -> None:
    config = load_settings(TrainConfig, ROOT / "configs" / f"{name}.yaml", {})
    args = grpo_arguments(
        config.grpo, out=Path("run"), seed=0, max_completion_length=9, rewards=len(config.rewards), use_cpu=True
    )
    objective_from(args)
    assert args.max_steps > 0
    for reward, options in config.rewards.items():
        load_reward(reward, options)


def test_what_the_command_line_says_is_what_the_whole_run_reads(tmp_path: Path) -> None:
    """Text would be true, whatever it says."""
    file = training.config(training.save_model(tmp_path / "m"), tmp_path)
    given = {"grpo.gradient_checkpointing": "false", "grpo.learning_rate": "1e-4"}
    read = plan_training(load_settings(TrainConfig, file, given)).config.grpo
    assert read["gradient_checkpointing"] is False and read["learning_rate"] == 1e-4
