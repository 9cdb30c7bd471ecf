"""Every figure that a run, or a comparison of runs, has the data for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eval.contrast import Comparison
from eval.contrast_plots import difference_figure
from eval.cost_plots import accuracy_by_seconds, policy_figure
from eval.curves import GradedSample
from eval.parallel_plots import parallel_heat_map, samples_curve, sequential_or_parallel
from eval.plots import accuracy_curve
from eval.results import Results
from eval.sample_plots import outcome_mix, token_use
from reasoning.run_folder import FIGURES


def draw_run(
    results: Results, samples: Sequence[GradedSample], folder: Path, *, name: str, note: str, device: str
) -> list[list[Path]]:
    """The figures of one run in `folder`, those without data left out: for each its .png, .svg and .json.

    `note` ends the caption of the first, `device` is what the run was made on. A figure of an earlier state of the run
    that has no data any more is deleted.
    """
    for figure in FIGURES[: FIGURES.index("comparison")]:
        for suffix in ("png", "svg", "json"):
            (folder / f"{figure}.{suffix}").unlink(missing_ok=True)
    points, cells = results.points, results.parallel
    if not any(point.n_samples for point in points):
        return []
    mark = "PARTIAL RUN. " if results.is_partial else ""
    curve = [points] if results.can_be_drawn else []
    drawn = (
        accuracy_curve(curve, folder / "accuracy", names=[name] * len(curve), note=note, partial=results.is_partial),
        outcome_mix(samples, folder / "outcomes", note=mark),
        token_use(samples, folder / "tokens", note=mark),
        accuracy_by_seconds(points, samples, folder / "seconds", device=device, note=mark),
        sequential_or_parallel(points, cells, folder / "parallel", note=mark),
        parallel_heat_map(cells, folder / "heatmap", note=mark),
        samples_curve(points, folder / "samples", note=mark),
        policy_figure(results.policies, points, cells, folder / "policies", note=mark),
    )
    return [files for files in drawn if files]


def draw_comparison(comparison: Comparison, folder: Path, *, note: str, partial: bool) -> list[list[Path]]:
    """The figures of several runs on their common tasks, in `folder`."""
    drawn = (
        accuracy_curve(comparison.curves, folder / "comparison", names=comparison.names, note=note, partial=partial),
        difference_figure(comparison, folder / "difference", note="PARTIAL RUN." if partial else ""),
    )
    return [files for files in drawn if files]
