"""From the folder of a run to what its tokens cost, for results.json and for the axes that accuracy is drawn over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.axes import Axis
from eval.compute import RunWork
from reasoning.compute import Storage
from reasoning.config import ConfigError
from reasoning.model_shape import DTYPE_BYTES, ModelShape, load_shape
from reasoning.planning import quantised_bytes
from reasoning.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class ChosenAxis:
    """What the user wants accuracy drawn against. `price_per_hour` of all devices together."""

    axis: Axis
    price_per_hour: float | None = None

    def __post_init__(self) -> None:
        if (self.axis.name == "dollars") != (self.price_per_hour is not None):
            raise ConfigError("--axis dollars and --price-per-hour PRICE go together")
        if self.price_per_hour is not None and not 0 < self.price_per_hour < math.inf:
            raise ConfigError(f"--price-per-hour {self.price_per_hour:g}: give a price above 0")


def read_work(folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> RunWork:
    """What the tokens of a run cost.

    Raises:
        ConfigError: the run does not say what model it was made with, or nothing is known of such a model.
    """
    if "imported" in manifest:
        raise ConfigError(f"{folder.path} holds completions of another tool, whose tokens nobody counted")
    if "model_config" not in manifest:
        raise ConfigError(
            f"{folder.path} was made by an earlier version, which did not store the shape of its model: "
            "what its tokens cost is not known; leave --axis out, or make the run again"
        )
    shape = load_shape(manifest["model_config"])
    engines = [attempt.get("engine", {}) for attempt in manifest["attempts"]]
    extra = config["engine"]["extra"]
    devices = int(extra.get("tensor_parallel_size", 1)) * int(extra.get("pipeline_parallel_size", 1))
    states = list(folder.read_last_states().values())
    joules = [state.get("energy_j") for state in states]
    return RunWork(
        shape=shape,
        storage=_storage(shape, next((e["dtype"] for e in reversed(engines) if "dtype" in e), shape.dtype), extra),
        steps=sum(state["steps"] for state in states),
        generated_tokens=sum(state["generated_tokens"] for state in states),
        prompt_tokens=sum(state["prompt_tokens"] - state["cached_tokens"] for state in states),
        seconds=devices * sum(state["time_s"] for state in states),
        joules=_sum(joules),
    )


def find_work(
    folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any], *, required: bool
) -> RunWork | None:
    """Likewise; None where it is not known, or a ConfigError if it is `required`."""
    try:
        return read_work(folder, config, manifest)
    except ConfigError:
        if required:
            raise
        return None


def _sum(joules: Sequence[float | None]) -> float | None:
    """None unless every attempt was measured."""
    known = [value for value in joules if value is not None]
    return sum(known) if known and len(known) == len(joules) else None


def _storage(shape: ModelShape, dtype: str, extra: Mapping[str, Any]) -> Storage:
    own = float(DTYPE_BYTES.get(dtype, shape.dtype_bytes))
    asked = extra.get("quantization")
    method, bits = (str(asked), None) if asked else (shape.quantization or "", shape.quantized_bits)
    layer = quantised_bytes(method, bits, own)
    kv = 1.0 if str(extra.get("kv_cache_dtype", "")).startswith("fp8") else own
    return Storage(layer, own, kv)


def check_drawable(folder: RunFolder, chosen: ChosenAxis) -> None:
    """Raises ConfigError when the run does not have what the axis takes."""
    work = read_work(folder, folder.read_config(), folder.read_manifest())
    if chosen.axis.name == "joules" and work.joules is None:
        raise ConfigError(
            f"{folder.path} does not say how much energy it took: no NVML there, or an earlier version ran it; "
            "choose another --axis"
        )
    if chosen.axis.unit < 1 and not work.seconds:
        raise ConfigError(f"{folder.path} does not say how long its engine ran; choose another --axis")
