"""Several runs on one chart, and in sentences what is and what is not a difference between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval.compute import scaled
from eval.contrast import Comparison, Run, common_tasks, compare_runs, say
from eval.report import comparison_report, in_common
from reasoning import console
from reasoning.config import ConfigError, flatten
from reasoning.files import write_text
from reasoning.pages import describe_settings, facts, line_names
from reasoning.run_folder import RunFolder
from reasoning.run_start import RESUMABLE
from reasoning.summary import Summary, describe_run


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison and the files that show it."""

    comparison: Comparison
    warnings: tuple[str, ...]
    plots: tuple[Path, ...]
    page: Path


def check_comparable(folders: Sequence[RunFolder]) -> None:
    """Refuse what cannot be compared before anything is written.

    Raises:
        ConfigError: a run is given twice, which would look like two that agree; one has no result; no task is common.
    """
    paths = [folder.path.resolve() for folder in folders]
    twice = next((folder.path for place, folder in enumerate(folders) if paths[place] in paths[:place]), None)
    if twice is not None:
        raise ConfigError(f"{twice} is given twice; compare a run with others")
    if len(folders) < 2:
        return
    for folder in folders:
        if not folder.graded_keys() & folder.finished_keys():
            raise ConfigError(_without_result(folder))
    runs = [describe_run(folder.read_config(), folder.read_manifest()) for folder in folders]
    names = line_names([(folder.path, run) for folder, run in zip(folders, runs, strict=True)])
    try:
        common_tasks(names, [run["task_set"] for run in runs], [folder.read_tasks() for folder in folders])
    except ValueError as error:
        raise ConfigError(str(error)) from None


def compare(summaries: Sequence[Summary]) -> Compared:
    """Compare runs with the first of them, in whose folder the figures and comparison.html are written.

    Raises:
        ConfigError: the engine failed on every sample of a run.
    """
    from eval.gallery import draw_comparison  # matplotlib: half a second

    for summary in summaries:
        if not any(point.n_samples for point in summary.results.points):
            raise ConfigError(_without_result(summary.folder))
    names = line_names([(summary.folder.path, summary.results.run) for summary in summaries])
    comparison = compare_runs(list(map(_run, names, summaries)), seed=summaries[0].results.run["seed"])
    warnings = tuple(
        f"{name}: {warning}"
        for name, summary in zip(names, summaries, strict=True)
        for warning in summary.results.warnings
    )
    folder = summaries[0].folder
    figures = draw_comparison(
        comparison,
        folder.plots,
        note=" ".join(dict.fromkeys(filter(None, (describe_settings(one.results) for one in summaries)))),
        partial=any(summary.results.is_partial for summary in summaries),
        **_on_axis(names, summaries),
    )
    line = console.command_line("reasoning.report", *(str(summary.folder.path) for summary in summaries))
    commands = {"Make this comparison again": line}
    page = comparison_report(comparison, warnings, figures, _facts(names, summaries), commands)
    write_text(folder.comparison, page)
    return Compared(comparison, warnings, tuple(path for files in figures for path in files), folder.comparison)


def print_comparison(compared: Compared) -> None:
    """What is a difference and what is not, how many tasks it rests on, and where it is to be seen."""
    console.say(in_common(compared.comparison))
    for sentence in say(compared.comparison):
        console.say(sentence)
    if compared.plots:
        console.say(f"comparison:   {compared.plots[0]}")
    console.say(f"report:       {compared.page}")


def _without_result(folder: RunFolder) -> str:
    return f"{folder.path} has no result to compare yet; finish it or leave it out"


def _on_axis(names: Sequence[str], summaries: Sequence[Summary]) -> dict[str, Any]:
    """The curves of the common tasks over the axis that the runs are drawn on; nothing where that is tokens."""
    costed = summaries[0].costed
    if costed is None:
        return {}
    runs = list(map(_run, names, summaries))
    other = [replace(run, samples=one.costed.samples) for run, one in zip(runs, summaries, strict=True) if one.costed]
    curves = compare_runs(other, seed=summaries[0].results.run["seed"]).curves
    return {"curves": [[scaled(point, costed.axis) for point in curve] for curve in curves], "axis": costed.axis}


def _run(name: str, summary: Summary) -> Run:
    run = summary.results.run
    return Run(
        name,
        run["model"],
        run["task_set"],
        run["method"],
        summary.tasks,
        summary.samples,
        what_is_measured(summary.folder),
        seed=run["seed"],
        counted="imported" not in run,
        unfinished=summary.results.is_unfinished,
        voting=summary.voting,
    )


def what_is_measured(folder: RunFolder) -> dict[str, object]:
    """The settings and the weights that decide the numbers of a run, but for its seed."""
    manifest = folder.read_manifest()
    # Weights in the middle of a training are on no disk; their number of steps tells them from those it began with.
    weights = {name: manifest.get(name) for name in ("model_sha256", "trained_steps")}
    settings = flatten(folder.read_config()) | weights
    return {name: value for name, value in settings.items() if name not in RESUMABLE | {"seed"}}


def _facts(names: Sequence[str], summaries: Sequence[Summary]) -> dict[str, dict[str, str]]:
    """The settings of every run, by its name."""
    return {
        f"{name}: {section}": found
        for name, summary in zip(names, summaries, strict=True)
        for section, found in facts(summary.folder.read_config(), summary.folder.read_manifest()).items()
    }
