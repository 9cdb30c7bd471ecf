"""What the sweep found, as a table and in the form that the figures of an evaluation are drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval.throughput import Throughput
from reasoning.compute import Storage
from reasoning.hardware import of_device
from reasoning.model_shape import DTYPE_BYTES, load_shape
from reasoning.roofline import Setup, decode_step
from reasoning.throughput import Speed, StepLine, StepTime

CLOSE = 0.20
"""How far a planned time may be from the measured one, as a share of it."""


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """The cells of a shape as lines of text, each with what `reasoning.plan` would have said."""
    for found in record.get("first_token", ()):
        yield f"  first token of {found['context']:,}: {found['seconds']:.3f} s, {found['tokens_per_s']:,.0f} tokens/s"
    yield "  context batch       ms  planned ratio  tokens/s util.  blocks  off"
    ratios = []
    for cell, planned in zip(record.get("cells", ()), planned_seconds(record), strict=True):
        where = f"  {cell['context']:>7,} {cell['batch']:>5}"
        if cell["status"] != "measured":
            yield f"{where} {cell['status']}, room for {cell['room']} {cell['error'] or ''}"
            continue
        comparison = 14 * " "
        if planned is not None:
            ratios.append(planned / cell["step_s"])
            comparison = f"{1e3 * planned:8.3f} {ratios[-1]:5.2f}"
        off = cell["kv_blocks_used"] - cell["kv_blocks_predicted"]
        yield (
            f"{where} {1e3 * cell['step_s']:8.3f} {comparison} {cell['tokens_per_s']:9,.0f} "
            f"{cell['utilisation']:5.2f} {cell['kv_blocks_used']:7,} {off:4}"
        )
    if ratios:
        close = sum(abs(ratio - 1) <= CLOSE for ratio in ratios)
        yield f"  planned within {CLOSE:.0%} of the measured time: {close} of {len(ratios)} cells"
    if fit := record.get("fit"):
        yield (
            f"  a step: {1e3 * fit['fixed_s']:.3f} ms + {1e6 * fit['request_s']:.2f} us a request "
            f"+ {1e6 * fit['token_s']:.5f} us a token of context"
        )


def planned_seconds(record: Mapping[str, Any]) -> list[float | None]:
    """The time of a step of each cell as the planner has it, without anything measured; None on an unknown device."""
    cells = record.get("cells", ())
    hardware = of_device(record["engine"]["device"]) if cells else None
    if hardware is None:
        return [None] * len(cells)
    size = float(DTYPE_BYTES[record["engine"]["dtype"]])
    setup = Setup(load_shape(record["config"]), hardware, Storage(size, size, size))
    return [
        decode_step(setup, cell["batch"], cell["context_tokens"] / cell["batch"]).seconds
        if cell["status"] == "measured"
        else None
        for cell in cells
    ]


def as_throughput(record: Mapping[str, Any]) -> Throughput:
    """The cells of a shape as if they were a profiled run, without its latencies."""
    measured = [cell for cell in record["cells"] if cell["status"] == "measured"]
    return Throughput(
        device=record["engine"]["device"],
        steps=sum(cell["steps"] for cell in measured),
        decoding_steps=sum(cell["steps"] for cell in measured),
        copy_rate=record["copy_rate"],
        utilisation=None,
        prefix_hit_rate=None,
        line=None if record.get("fit") is None else StepLine(**record["fit"]),
        first_token_s={},
        answer_s={},
        between_tokens_s={},
        speeds=tuple(
            Speed(
                batch_low=cell["batch"],
                batch_high=cell["batch"],
                batch=cell["batch"],
                position=cell["context_tokens"] / cell["batch"],
                tokens_per_s=cell["tokens_per_s"],
                step_bytes=cell["weight_bytes"] + cell["kv_bytes"],
                steps=cell["steps"],
                seconds=cell["steps"] * cell["step_mean_s"],
            )
            for cell in measured
        ),
        step_times=tuple(
            StepTime(cell["batch"], cell["context_tokens"], cell["step_s"], cell["steps"]) for cell in measured
        ),
    )
