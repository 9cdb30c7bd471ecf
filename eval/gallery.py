"""Every figure that a run, or a comparison of runs, has the data for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eval.axes import TOKENS, Axis
from eval.compute import OnAxis, RunWork
from eval.contrast import Comparison
from eval.contrast_plots import difference_figure
from eval.cost_plots import accuracy_by_seconds, policy_figure
from eval.curves import GradedSample
from eval.kv_plots import kv_growth
from eval.parallel_plots import parallel_heat_map, samples_curve, sequential_or_parallel
from eval.plots import accuracy_curve
from eval.results import Results
from eval.roofline_plots import run_roofline
from eval.sample_plots import outcome_mix, token_use
from eval.throughput_plots import latencies, speed_by_position, step_times
from reasoning.run_folder import FIGURES
from reasoning.types import CurvePoint


def draw_run(
    results: Results,
    samples: Sequence[GradedSample],
    folder: Path,
    *,
    name: str,
    note: str,
    device: str,
    costed: OnAxis | None = None,
    work: RunWork | None = None,
) -> list[list[Path]]:
    """The figures of one run in `folder`, those without data left out: for each its .png, .svg and .json.

    `note` ends the caption of the first, `device` is what the run was made on, `costed` what accuracy is drawn against
    in place of tokens, `work` what tokens of the run cost. A figure of an earlier state of the run that has no data any
    more is deleted.
    """
    for figure in FIGURES[: FIGURES.index("comparison")]:
        for suffix in ("png", "svg", "json"):
            (folder / f"{figure}.{suffix}").unlink(missing_ok=True)
    points, cells = results.points, results.parallel
    if not any(point.n_samples for point in points):
        return []
    mark = "PARTIAL RUN. " if results.is_partial else ""
    against = costed or OnAxis(TOKENS, results, samples)
    spent, axis = against.results, against.axis
    curve = [spent.points] if results.can_be_drawn else []
    drawn = (
        accuracy_curve(
            curve,
            folder / "accuracy",
            names=[name] * len(curve),
            note=note,
            partial=results.is_partial,
            axis=axis,
        ),
        outcome_mix(samples, folder / "outcomes", note=mark),
        token_use(samples, folder / "tokens", note=mark),
        accuracy_by_seconds(points, samples, folder / "seconds", device=device, note=mark),
        kv_growth(results.kv, folder / "kv", device=device, note=mark) if results.kv is not None else [],
        sequential_or_parallel(points, spent.parallel, folder / "parallel", note=mark, axis=axis),
        parallel_heat_map(cells, folder / "heatmap", note=mark),
        samples_curve(points, folder / "samples", note=mark),
        policy_figure(spent.policies, spent.points, spent.parallel, folder / "policies", note=mark, axis=axis),
        speed_by_position(results.throughput, folder / "throughput", note=mark),
        step_times(results.throughput, folder / "steps", note=mark),
        latencies(results.throughput, folder / "latency", note=mark),
        run_roofline(results.throughput, work, folder / "roofline", note=mark),
    )
    return [files for files in drawn if files]


def draw_comparison(
    comparison: Comparison,
    folder: Path,
    *,
    note: str,
    partial: bool,
    curves: Sequence[Sequence[CurvePoint]] | None = None,
    axis: Axis = TOKENS,
) -> list[list[Path]]:
    """The figures of several runs on their common tasks, in `folder`. `curves` are those over another `axis`."""
    drawn = (
        accuracy_curve(
            curves or comparison.curves,
            folder / "comparison",
            names=comparison.names,
            note=note,
            partial=partial,
            axis=axis,
        ),
        difference_figure(comparison, folder / "difference", note="PARTIAL RUN." if partial else ""),
    )
    return [files for files in drawn if files]
