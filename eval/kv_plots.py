"""The KV cache of a run over time: what its requests need, what the engine holds, and where it was full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from matplotlib.axes import Axes

from eval.figure import Words, drawing, files_of
from eval.style import COLORS, LINES, MUTED, SMALL_SIZE
from reasoning.kv_cache import UNITS, KvGrowth, KvSample, size_of

MOST_MARKS = 400
"""Samples that are drawn; of a longer run the fullest of each stretch."""

FAR_ABOVE = 4
"""A capacity of more than this many times the peak would press the curve flat: it is named, not drawn."""


def kv_growth(growth: KvGrowth, out: Path, *, device: str, note: str) -> list[Path]:
    """Predicted line, measured dots, capacity and preemptions; below, the difference between the two."""
    drawn = thinned(growth.samples, MOST_MARKS)
    if len(drawn) < 2 or not growth.peak_bytes:
        return []
    unit, size = next(((unit, size) for unit, size in UNITS.items() if growth.peak_bytes >= size), ("B", 1))
    near = growth.capacity_bytes <= FAR_ABOVE * growth.peak_bytes
    words = Words("How the KV cache grows with the thinking", _caption(growth, device, note))
    numbers = {
        "device": device,
        "capacity_bytes": growth.capacity_bytes,
        "block_bytes": growth.block_bytes,
        "peak_bytes": growth.peak_bytes,
        "preemptions": growth.preemptions,
        "recomputed_tokens": growth.recomputed_tokens,
        "n_outside_prediction": growth.outside,
        "samples": [asdict(sample) for sample in drawn],
    }
    with drawing(out, "kv_growth", words, numbers, height=3.6) as figure:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1.0))
        times = [sample.time_s for sample in drawn]
        axes.plot(times, [s.predicted_bytes / size for s in drawn], color=COLORS[0], linewidth=1.4, label="predicted")
        measured = [s.measured_bytes / size for s in drawn]
        axes.plot(times, measured, ".", color=COLORS[1], markersize=4, label="measured")
        if near:
            capacity = growth.capacity_bytes / size
            axes.axhline(capacity, color=MUTED, linestyle=LINES[1], linewidth=1.2, label="capacity")
        _mark_preemptions(axes, drawn)
        axes.set_ylim(0, 1.08 * (growth.capacity_bytes if near else growth.peak_bytes) / size)
        axes.set_ylabel(f"KV cache ({unit})")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=SMALL_SIZE)
        _draw_residual(below, drawn, growth.block_bytes)
        below.set_xlabel("Seconds since sampling began")
    return files_of(out)


def thinned(samples: Sequence[KvSample], most: int) -> list[KvSample]:
    """At most `most` samples: the fullest of each stretch of equally many, with the preemptions of all of them."""
    stretch = -(-len(samples) // most)
    kept = []
    for start in range(0, len(samples), stretch):
        part = samples[start : start + stretch]
        fullest = max(part, key=lambda sample: sample.measured_bytes)
        kept.append(replace(fullest, preemptions=sum(sample.preemptions for sample in part)))
    return kept


def _mark_preemptions(axes: Axes, samples: Sequence[KvSample]) -> None:
    times = [sample.time_s for sample in samples if sample.preemptions]
    if times:
        label = f"preempted ({sum(sample.preemptions for sample in samples):,})"
        edge = axes.get_xaxis_transform()  # x in seconds, y as a part of the height
        axes.plot(times, [0.03] * len(times), "^", color=COLORS[2], markersize=5, transform=edge, label=label)


def _draw_residual(axes: Axes, samples: Sequence[KvSample], block_bytes: int) -> None:
    """Measured minus predicted, in blocks of a running request; the band is one block to either side."""
    running = [sample for sample in samples if sample.running]
    axes.axhspan(-1, 1, color=COLORS[0], alpha=0.12, linewidth=0)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    blocks = [sample.residual_bytes / block_bytes / sample.running for sample in running]
    axes.plot([sample.time_s for sample in running], blocks, ".", color=COLORS[1], markersize=3)
    reach = max(1.5, *(1.1 * abs(value) for value in blocks)) if blocks else 1.5
    axes.set_ylim(-reach, reach)
    axes.set_ylabel("off by\n(blocks)")


def _caption(growth: KvGrowth, device: str, note: str) -> str:
    parts = [
        f"On {device}. Predicted: the blocks that the running requests need for their lengths, shared ones once. "
        "Measured: blocks that the engine holds. Below: the difference for each running request; band: one block.",
        f"Peak {size_of(growth.peak_bytes)} of {size_of(growth.capacity_bytes)}.",
    ]
    if growth.outside:
        parts.append(f"{growth.outside:,} of {len(growth.samples):,} samples lie outside the band.")
    if growth.preemptions:
        parts.append(
            f"{growth.preemptions:,} preemptions: {growth.recomputed_tokens:,} tokens were computed again, which costs "
            "time and no accuracy."
        )
    return " ".join([*parts, note]).strip()
