"""Rooflines: what a device allows at each arithmetic intensity, and where steps lie beneath it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eval.compute import RunWork
from eval.figure import End, Words, drawing, files_of, label_ends
from eval.style import COLORS, INK, MARKERS, MUTED, for_text
from eval.throughput import Throughput
from reasoning.hardware import of_device
from reasoning.throughput import Speed

_TERA = 1e12
_POINTS, _APART = 5, 1.3


@dataclass(frozen=True, slots=True)
class Roof:
    """A limit: bytes and operations a second. `matrix_flops` None: not known, the slope alone is drawn."""

    name: str
    bandwidth: float
    matrix_flops: float | None

    def at(self, intensity: float) -> float:
        """Operations a second that are allowed with so many operations a byte."""
        slope = intensity * self.bandwidth
        return slope if self.matrix_flops is None else min(slope, self.matrix_flops)


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kind of step: what it computes and moves, and how long it takes."""

    name: str
    flops: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds


def roofline(
    roofs: Sequence[Roof],
    points: Sequence[RooflinePoint],
    out: Path,
    *,
    title: str,
    caption: str,
    numbers: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Points beneath roofs, the first of which is drawn solid; nothing without a point."""
    if not points or not roofs:
        return []
    found = {
        "roofs": [asdict(roof) for roof in roofs],
        "points": [
            asdict(point) | {"intensity": point.intensity, "flops_per_s": point.flops_per_s} for point in points
        ],
        **(numbers or {}),
    }
    with drawing(out, "roofline", Words(title, caption), found, height=3.4) as figure:
        axes = figure.subplots()
        low, high = _range(roofs, points)
        ends = [_draw_roof(axes, roof, low, high, number) for number, roof in enumerate(roofs)]
        for number, point in enumerate(points):
            color, y = COLORS[number % len(COLORS)], point.flops_per_s / _TERA
            axes.plot([point.intensity], [y], MARKERS[number % len(MARKERS)], color=color, markersize=7)
            axes.plot([point.intensity] * 2, [y, roofs[0].at(point.intensity) / _TERA], ":", color=color, linewidth=1)
            ends.append(End(point.intensity, y, point.name, for_text(color)))
        _log(axes, low, high)
        axes.set_xlabel("Arithmetic intensity: operations a byte of memory (log scale)")
        axes.set_ylabel("TFLOP/s (log scale)")
        label_ends(figure, axes, ends, width=30)
    return files_of(out)


def run_roofline(found: Throughput | None, work: RunWork | None, out: Path, *, note: str) -> list[Path]:
    """The steps that a profiled run spent most time in, under what its device copies and multiplies."""
    if found is None or work is None or found.copy_rate is None:
        return []
    known = of_device(found.device)
    matrix = None if known is None else known.matrix_rate(work.storage.layer_weight)
    points = _apart(
        [_point(speed, work) for speed in sorted(found.speeds, key=lambda s: -s.seconds) if speed.step_bytes]
    )
    top = "Flat: the rate of matrix products. " if matrix else ""
    return roofline(
        [Roof("memory copied", found.copy_rate, matrix)],
        points,
        out,
        title="How near decoding comes to what the device allows",
        caption=(
            f"On {found.device}. Points: requests in a step and their mean position, those steps that took most time. "
            f"Slope: the measured copy rate. {top}{note}"
        ),
    )


def _point(speed: Speed, work: RunWork) -> RooflinePoint:
    place = round(speed.position)
    return RooflinePoint(
        name=f"{speed.batch:.0f} at {speed.position:,.0f}",
        flops=speed.batch * work.flops(place, place + 1),
        bytes=speed.step_bytes or 0.0,
        seconds=speed.batch / speed.tokens_per_s,
    )


def _apart(points: Sequence[RooflinePoint]) -> list[RooflinePoint]:
    """The first few of them that do not lie on each other."""
    kept: list[RooflinePoint] = []
    for point in points:
        near = (max(point.intensity / one.intensity, one.intensity / point.intensity) < _APART for one in kept)
        if len(kept) < _POINTS and not any(near):
            kept.append(point)
    return kept


def _range(roofs: Sequence[Roof], points: Sequence[RooflinePoint]) -> tuple[float, float]:
    ridges = [roof.matrix_flops / roof.bandwidth for roof in roofs if roof.matrix_flops is not None]
    places = [point.intensity for point in points] + ridges
    return 0.5 * min(places), 4 * max(places)


def _draw_roof(axes: Axes, roof: Roof, low: float, high: float, number: int) -> End:
    corners = [low, high]
    if roof.matrix_flops is not None:
        corners.insert(1, min(max(roof.matrix_flops / roof.bandwidth, low), high))
    y = [roof.at(x) / _TERA for x in corners]
    color, style = (INK, "-") if number == 0 else (MUTED, (0, (5, 2)))
    axes.plot(corners, y, color=color, linestyle=style, linewidth=1.4 if number == 0 else 1.0)
    return End(corners[-1], y[-1], roof.name, color)


def _log(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, 3 * high)  # room for the names of the roofs
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=12))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
