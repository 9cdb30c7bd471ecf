"""The `grpo:` section of a training configuration as TRL's GRPOConfig: names and meanings are TRL's.

Keys that this trainer honours are listed; every other key of GRPOConfig is refused by name, so that no setting is
accepted and then ignored.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
import yaml

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from trl import GRPOConfig

from reasoning.config import ConfigError
from rl import lora
from rl.distributed import process_count

HONOURED = frozenset(
    {
        *("learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "weight_decay"),
        *("optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm"),
        *("max_steps", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"),
        *("steps_per_generation", "generation_batch_size", "num_generations", "num_iterations"),
        *("bf16", "gradient_checkpointing", "disable_dropout"),
        *("loss_type", "importance_sampling_level", "epsilon", "epsilon_high", "delta", "beta"),
        *("use_bias_correction_kl", "scale_rewards", "reward_weights", "mask_truncated_completions"),
        *("vllm_importance_sampling_correction", "vllm_importance_sampling_mode"),
        *("vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min"),
        *("use_vllm", "vllm_mode", "vllm_server_base_url", "vllm_server_host", "vllm_server_port"),
        *("vllm_server_timeout", "vllm_group_port"),
        *("temperature", "top_p", "top_k", "min_p"),
        *("logging_steps", "report_to", "run_name", "save_steps", "save_total_limit"),
    }
)
"""Keys of GRPOConfig that do here what they do in TRL."""

INSTEAD = {
    "output_dir": "write out, the run folder",
    "seed": "write seed at the top level",
    "data_seed": "write seed at the top level",
    "max_completion_length": "write budget (thinking tokens) and max_answer_tokens; together they bound a completion",
    "vllm_tensor_parallel_size": "every process has an engine of its own on its device; leave it out",
    **dict.fromkeys(("fsdp", "fsdp_config"), "start with accelerate launch --use_fsdp --fsdp_version 2"),
    "vllm_gpu_memory_utilization": "write engine.gpu_memory_utilization",
    "vllm_max_model_length": "it follows from the longest prompt, budget and max_answer_tokens",
    "fp16": "bfloat16 with float32 masters is used on a GPU; write bf16: false for float32",
    "eval_strategy": "write held_out.every, in steps",
    "eval_steps": "write held_out.every, in steps",
    "do_eval": "write held_out.every, in steps",
    "log_completions": "every rollout is in rollouts/*.parquet",
    "torch_compile": "write update.compile",
    "resume_from_checkpoint": "use --resume",
    "shuffle_dataset": "tasks are always shuffled, by seed",
    "num_generations_eval": "write held_out.samples",
    "per_device_eval_batch_size": "the engine batches the held-out evaluation by itself",
    "save_strategy": "write save_steps",
    "logging_strategy": "write logging_steps",
    "torch_compile_mode": "write update.compile",
    "model_init_kwargs": "write model; its precision follows from bf16 and the device",
    "use_liger_kernel": "the head is fused and rows are packed without it",
    "use_cpu": "a GPU is used where there is one; hide it with CUDA_VISIBLE_DEVICES=",
    "gradient_checkpointing_kwargs": "write gradient_checkpointing: true, or leave both to the memory estimate",
}
"""What to write for keys of GRPOConfig that have no use here."""

NOT_BUILT = {
    **dict.fromkeys(("deepspeed", "parallelism_config"), "weights are spread over processes with FSDP2 alone"),
    **dict.fromkeys(("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha"), "the reference stays fixed"),
    **dict.fromkeys(("repetition_penalty", "generation_kwargs"), "sampling has temperature, top_p, top_k and min_p"),
    **dict.fromkeys(
        ("off_policy_mask_threshold", "top_entropy_quantile", "entropy_coef", "use_adaptive_entropy"),
        "the packed loss has no such term",
    ),
    "multi_objective_aggregation": "rewards are added up with reward_weights",
    "chat_template_kwargs": "prompts are those of reasoning.eval",
    "cast_lm_head_to_fp32": "the head multiplies in the model's own precision, softmax and loss are float32",
    "router_aux_loss_coef": "a mixture of experts is trained without an auxiliary loss",
}
"""Keys of GRPOConfig that would change what is learnt and are not built, with what holds instead."""

AT_LEAST = {
    **dict.fromkeys(("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"), 1),
    **dict.fromkeys(("generation_batch_size", "num_iterations"), 1),
    **dict.fromkeys(("learning_rate", "weight_decay", "warmup_steps", "beta", "epsilon", "max_grad_norm"), 0),
    "num_generations": 2,
}
"""The least value of numbers that GRPOConfig does not check."""

DEFAULTS: dict[str, Any] = {
    "report_to": "none",
    "optim": "adamw_torch_fused",
    "save_steps": 50,
    "save_total_limit": 2,
}
"""Where our default is not that of GRPOConfig."""


def is_known(key: str) -> bool:
    """Whether GRPOConfig, or ModelConfig for adapters, has the key."""
    return key in {field.name for field in dataclasses.fields(GRPOConfig)} or key in lora.KEYS


def typed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The `grpo:` section with its values as GRPOConfig, and ModelConfig for adapters, want them.

    Raises:
        ConfigError: a key that is unknown or not honoured, or a value of the wrong type.
    """
    fields = {field.name: field for field in dataclasses.fields(GRPOConfig)} | lora.lora_fields()
    return {key: _typed(key, value, fields) for key, value in settings.items()}


def grpo_arguments(
    settings: Mapping[str, Any], *, out: Path, seed: int, max_completion_length: int, rewards: int, use_cpu: bool
) -> GRPOConfig:
    """The GRPOConfig that the `grpo:` section describes, for completions of at most `max_completion_length` tokens.

    Raises:
        ConfigError: a key that is unknown or not honoured, a value that cannot be used, or GPUs without a process each.
    """
    _check_devices()
    values = {key: value for key, value in typed_settings(settings).items() if key not in lora.KEYS}
    _check_values(values)
    _check_batch(values)
    known: dict[str, Any] = DEFAULTS | values | {"use_vllm": False}  # or TRL's trainer would start an engine, too
    known["bf16"] = bool(known.get("bf16", True)) and not use_cpu
    weights = known.get("reward_weights")
    if weights is not None and len(weights) != rewards:
        raise ConfigError(f"grpo.reward_weights has {len(weights)} weights for {rewards} rewards; write one for each")
    try:
        args = GRPOConfig(
            **known,
            output_dir=str(out),
            seed=seed,
            max_completion_length=max_completion_length,
            use_cpu=use_cpu,
            disable_tqdm=True,
            remove_unused_columns=False,
            save_strategy="steps",
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(f"grpo: {error}") from None
    _check_choices(args)
    assert args.steps_per_generation is not None
    if args.steps_per_generation % args.gradient_accumulation_steps:
        raise ConfigError(
            f"grpo.steps_per_generation is {args.steps_per_generation}, which gradient_accumulation_steps "
            f"({args.gradient_accumulation_steps}) does not divide: an optimizer step would mix two generations"
        )
    return args


def _check_devices() -> None:
    """Refuse a second GPU before a model is loaded, unless each has its process."""
    count = torch.cuda.device_count()
    if count > 1 and process_count() == 1:
        raise ConfigError(
            f"{count} GPUs are visible, and one process trains on one; choose it with CUDA_VISIBLE_DEVICES=0, or start "
            f"a process for each: accelerate launch --multi_gpu --num_processes {count} -m reasoning.train ..."
        )


def _typed(key: str, value: Any, fields: Mapping[str, dataclasses.Field[Any]]) -> Any:
    """The value as GRPOConfig wants it: text from the command line is read as YAML, and `1e-5` is a number."""
    _check_key(key, fields)
    if isinstance(value, str):
        value = yaml.safe_load(value)
    kinds = str(fields[key].type)
    if value is None and ("None" not in kinds or key == "num_generations"):
        raise ConfigError(f"grpo.{key} has no value; write one, or leave the key out")
    if isinstance(value, str) and "float" in kinds and "str" not in kinds and "list" not in kinds:
        try:
            return float(value)
        except ValueError:
            raise ConfigError(f"grpo.{key}: {value!r} is not a number") from None
    for name, kind, what in _KINDS:
        if name in kinds and "str" not in kinds and value is not None and not isinstance(value, kind):
            raise ConfigError(f"grpo.{key}: {value!r} is not {what}")
    return value


_KINDS = (
    ("'int'", int, "a whole number"),
    ("int |", int, "a whole number"),
    ("'float'", int | float, "a number"),
    ("bool", bool, "true or false"),
    ("list[float]", list, "a list of numbers, as in [1.0, 0.5]"),
)
"""A part of a field's type, what values of it are, and in words."""


def _check_key(key: str, fields: Mapping[str, Any]) -> None:
    """Refuse what is not honoured, with what to write instead."""
    if key in HONOURED or key in lora.KEYS:
        return
    if key in lora.INSTEAD:
        raise ConfigError(f"grpo.{key} is not used here: {lora.INSTEAD[key]}; leave it out")
    if key not in fields:
        near = get_close_matches(key, [*HONOURED, *lora.KEYS], n=1)
        raise ConfigError(f"grpo.{key}: unknown key" + (f"; did you mean grpo.{near[0]}?" if near else ""))
    if key in NOT_BUILT:
        raise ConfigError(f"grpo.{key} is not used here: {NOT_BUILT[key]}; leave it out")
    if key.startswith("vllm_") and key not in INSTEAD:
        raise ConfigError(f"grpo.{key} is not used here; the engine's settings are in engine")
    instead = INSTEAD.get(key, "it has no effect in this trainer; leave it out")
    raise ConfigError(f"grpo.{key} is not used here; {instead}")


def _check_values(values: Mapping[str, Any]) -> None:
    for key, least in AT_LEAST.items():
        value = values.get(key)
        if value is not None and value < least:
            hint = "; a group needs at least 2 to compare" if key == "num_generations" else f"; write {least} or more"
            raise ConfigError(f"grpo.{key} is {value}{hint}")
    _check_engine(values)
    schedule = values.get("lr_scheduler_type")
    if schedule in ("reduce_lr_on_plateau", "greedy"):
        raise ConfigError(
            f"grpo.lr_scheduler_type {schedule} follows a measured loss, and that of GRPO says nothing; write linear, "
            "cosine or constant"
        )
    if values.get("temperature", 1.0) <= 0:
        raise ConfigError(
            f"grpo.temperature is {values['temperature']}; completions of a group have to differ, so write more than 0"
        )


def _check_engine(values: Mapping[str, Any]) -> None:
    """Whether it is clear where rollouts come from."""
    if not values.get("use_vllm", True):
        raise ConfigError("grpo.use_vllm: false is not built: rollouts always come from vLLM; leave it out")
    mode, url = values.get("vllm_mode", "colocate"), values.get("vllm_server_base_url")
    if mode not in ("colocate", "server"):
        raise ConfigError(f"grpo.vllm_mode is '{mode}'; use colocate or server")
    servers = [key for key in values if key.startswith("vllm_server_") or key == "vllm_group_port"]
    if servers and mode != "server":
        raise ConfigError(f"grpo.{servers[0]} is of a vLLM server; write grpo.vllm_mode: server beside it")
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError(f"grpo.vllm_server_base_url is '{url}'; write it as in http://localhost:8000")


def _check_choices(args: GRPOConfig) -> None:
    """What TRL finds out only when it is used, after a model was loaded."""
    if args.scale_rewards not in ("group", "batch", "none"):
        raise ConfigError(f"grpo.scale_rewards is '{args.scale_rewards}'; use group, batch or none")
    for name in cast(list[str], args.report_to):  # GRPOConfig has made a list of it
        package = REPORTERS.get(name)
        if package is None:
            raise ConfigError(f"grpo.report_to: '{name}' is not known; use {', '.join(REPORTERS)} or none")
        if find_spec(package) is None:
            raise ConfigError(f"grpo.report_to: {name} is not installed; pip install {name}, or write report_to: none")


REPORTERS = {"wandb": "wandb", "trackio": "trackio", "tensorboard": "tensorboard"}
"""What metrics can be sent to, and the package that it takes."""


def _check_batch(values: Mapping[str, Any]) -> None:
    """Say in our words what TRL says when groups do not fill a generation."""
    group = values.get("num_generations") or 8
    batch = values.get("generation_batch_size")
    named = "grpo.generation_batch_size"
    if batch is None:
        steps = values.get("steps_per_generation") or values.get("gradient_accumulation_steps", 1)
        batch = values.get("per_device_train_batch_size", 8) * steps * process_count()
        named = "per_device_train_batch_size x steps_per_generation (or gradient_accumulation_steps)"
        named += " x processes" * (process_count() > 1)
    if batch % group:
        raise ConfigError(
            f"{named} is {batch}, which is no multiple of num_generations ({group}): "
            f"write {batch // group * group or group} or {(batch // group + 1) * group}"
        )
