"""The `grpo:` section of a training configuration as TRL's GRPOConfig: names and meanings are TRL's.

`rl.grpo_keys` has the keys; here are their values, checked before anything is loaded.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, cast

import torch
import yaml

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from transformers import Trainer, get_scheduler
from trl import GRPOConfig

from reasoning.config import ConfigError
from rl import lora
from rl.distributed import process_count
from rl.grpo_keys import check_key

RANGES: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (
        (
            *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"),
            *("generation_batch_size", "num_iterations", "vllm_server_port", "vllm_group_port"),
        ),
        lambda value: value >= 1,
        "1 or more",
    ),
    (
        (
            *("learning_rate", "weight_decay", "warmup_steps", "beta", "epsilon", "epsilon_high", "delta"),
            *("max_grad_norm", "adam_epsilon", "top_k", "save_steps", "save_total_limit", "vllm_server_timeout"),
            *("vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min"),
        ),
        lambda value: value >= 0,
        "0 or more",
    ),
    (("num_generations",), lambda value: value >= 2, "2 or more; a group needs at least 2 to compare"),
    (("num_train_epochs", "logging_steps"), lambda value: value > 0, "more than 0"),
    (("temperature",), lambda value: value > 0, "more than 0; completions of a group have to differ"),
    (("max_steps",), lambda value: value >= 1 or value == -1, "1 or more, or leave it out for num_train_epochs"),
    (("adam_beta1", "adam_beta2"), lambda value: 0 <= value < 1, "0 or more and less than 1"),
    (("top_p",), lambda value: 0 < value <= 1, "more than 0 and at most 1"),
    (("min_p",), lambda value: 0 <= value <= 1, "0 or more and at most 1"),
)
"""Keys whose numbers GRPOConfig does not check, which of them can be used, and these in words."""

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
    known["bf16"] = known.get("bf16") is not False and not use_cpu
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
    check_key(key, fields)
    kind = fields[key].type
    kinds = (kind.__name__ if isinstance(kind, type) else str(kind)).split(" | ")
    if key == "scale_rewards":
        kinds.append("bool")  # as TRL takes it
    if "dict" in kinds:
        kinds.remove("str")  # a text is read first
    read = _read(value) if isinstance(value, str) else value
    if read is None and ("None" not in kinds or key == "num_generations"):
        raise ConfigError(f"grpo.{key} has no value; write one, or leave the key out")
    known = [name for name in kinds if name in _KINDS]
    for candidate in (read, value):  # `run_name: 5` on the command line is a text
        if candidate is None or any(_KINDS[name][0](candidate) for name in known):
            return candidate
    if isinstance(read, str) and "float" in kinds:
        with suppress(ValueError):
            if isfinite(number := float(read)):
                return number
    raise ConfigError(f"grpo.{key}: {read!r} is not {' or '.join(_KINDS[name][1] for name in known)}")


def _read(text: str) -> Any:
    """What a text says as YAML; the text where it is none."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(of, value))


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (_is_number, "a number"),
    "list[float]": (lambda value: _is_list(value, _is_number), "a list of numbers, as in [1.0, 0.5]"),
    "list[str]": (lambda value: _is_text(value) or _is_list(value, _is_text), "a name or a list of names"),
    "dict": (lambda value: isinstance(value, dict), "a mapping"),
    "str": (_is_text, "a text"),
}
"""A type of a field, which values are of it, and in words."""


def _check_values(values: Mapping[str, Any]) -> None:
    for keys, is_usable, words in RANGES:
        for key in keys:
            value = values.get(key)
            if value is not None and not is_usable(value):
                raise ConfigError(f"grpo.{key} is {value}; write {words}")
    _check_engine(values)
    schedule = values.get("lr_scheduler_type")
    if schedule in ("reduce_lr_on_plateau", "greedy"):
        raise ConfigError(
            f"grpo.lr_scheduler_type {schedule} follows a measured loss, and that of GRPO says nothing; write linear, "
            "cosine or constant"
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
    try:
        kind, options = Trainer.get_optimizer_cls_and_kwargs(args)
        optimizer = kind([torch.nn.Parameter(torch.zeros(1))], **options)
        get_scheduler(args.lr_scheduler_type, optimizer, 0, 1, cast(dict[str, Any] | None, args.lr_scheduler_kwargs))
    except Exception as error:  # each optimizer and schedule refuses in its own way
        raise ConfigError(
            f"grpo.optim {args.optim} with optim_args {args.optim_args}, or lr_scheduler_type {args.lr_scheduler_type} "
            f"with lr_scheduler_kwargs {args.lr_scheduler_kwargs}, cannot be used: {error}"
        ) from error
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
