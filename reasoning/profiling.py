"""What a run that is profiled notes of its device, and how its files become the section `throughput` of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.curves import GradedSample
from eval.throughput import Throughput, throughput_of
from reasoning.config import ConfigError
from reasoning.engine.base import Engine
from reasoning.engine.copy_rate import copy_rate
from reasoning.engine.steps import COLUMNS, Steps
from reasoning.files import read_as
from reasoning.kv_cache import KvCache
from reasoning.model_shape import DTYPE_BYTES, load_shape
from reasoning.run_folder import RunFolder
from reasoning.throughput import Traffic, join


def device_facts(model_config: Mapping[str, Any], engine: Engine) -> dict[str, float | None]:
    """The measured copy rate of the engine's device, bytes a second, and the bytes of weights that a step reads.

    Each is None where it is not known: of an engine without a device of its own, of a model of another family, stored
    quantised, or with experts.
    """
    described = engine.describe()
    device = described.get("device")
    rate = None if device is None else copy_rate("cpu" if device == "cpu" else "cuda")
    return {"copy_rate": rate, "weight_bytes": _weight_bytes(model_config, described.get("dtype"))}


def _weight_bytes(model_config: Mapping[str, Any], dtype: str | None) -> int | None:
    if dtype is None:
        return None
    try:
        shape = load_shape(model_config)
    except ConfigError:
        return None
    if shape.quantization is not None or shape.mixed_experts:  # which experts a step reads depends on its batch
        return None
    # Of the embedding a token reads one row.
    return (shape.layer_parameters + shape.head_parameters) * DTYPE_BYTES[dtype]


def read_throughput(
    folder: RunFolder, manifest: Mapping[str, Any], samples: Sequence[GradedSample]
) -> Throughput | None:
    """What the profile of a run says; None if it has none. Rates are held against the device of the last attempt."""
    steps = join(list(read_as(folder.steps, lambda line: Steps(**{name: line[name] for name in COLUMNS}))))
    profiled = [attempt for attempt in manifest["attempts"] if "profile" in attempt]
    if not len(steps) or not profiled:
        return None
    last = profiled[-1]
    states = folder.read_last_states().values()
    prompts = sum(state["prompt_tokens"] for state in states)
    return throughput_of(
        steps,
        samples,
        device=str(last["engine"].get("device", "an unnamed device")),
        copy_rate=last["profile"]["copy_rate"],
        traffic=_traffic(last),
        prefix_hit_rate=sum(state["cached_tokens"] for state in states) / prompts if prompts else None,
    )


def _traffic(attempt: Mapping[str, Any]) -> Traffic | None:
    weights = attempt["profile"]["weight_bytes"]
    if weights is None:
        return None
    groups = KvCache.from_json(attempt["engine"]["kv_cache"]).groups
    return Traffic(weights, lambda tokens: sum(group.needed_bytes(round(tokens)) for group in groups))
