"""Several runs on one chart, and in sentences what is and what is not a difference between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.contrast import Comparison, Run, compare_runs, say
from eval.report import comparison_report, in_common
from reasoning import console
from reasoning.config import ConfigError, flatten
from reasoning.files import write_text
from reasoning.pages import describe_settings, facts, line_names
from reasoning.run_folder import RunFolder
from reasoning.run_start import RESUMABLE
from reasoning.summary import Summary


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison and the files that show it."""

    comparison: Comparison
    warnings: tuple[str, ...]
    plots: tuple[Path, ...]
    page: Path


def check_distinct(folders: Sequence[RunFolder]) -> None:
    """Raises ConfigError when a run is given twice: it would look like two that agree."""
    paths = [folder.path.resolve() for folder in folders]
    twice = next((folder.path for place, folder in enumerate(folders) if paths[place] in paths[:place]), None)
    if twice is not None:
        raise ConfigError(f"{twice} is given twice; compare a run with others")


def compare(summaries: Sequence[Summary]) -> Compared:
    """Compare runs with the first of them, in whose folder the figures and comparison.html are written.

    Raises:
        ConfigError: a run has no result, or the runs have no task in common.
    """
    from eval.gallery import draw_comparison  # matplotlib: half a second

    for summary in summaries:
        if not any(point.n_samples for point in summary.results.points):
            raise ConfigError(f"{summary.folder.path} has no result to compare yet; finish it or leave it out")
    names = line_names([(summary.folder.path, summary.results) for summary in summaries])
    try:
        comparison = compare_runs(list(map(_run, names, summaries)), seed=summaries[0].results.run["seed"])
    except ValueError as error:
        raise ConfigError(str(error)) from None
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
    )


def what_is_measured(folder: RunFolder) -> dict[str, object]:
    """The settings and the weights that decide the numbers of a run, but for its seed."""
    settings = flatten(folder.read_config()) | {"model_sha256": folder.read_manifest().get("model_sha256")}
    return {name: value for name, value in settings.items() if name not in RESUMABLE | {"seed"}}


def _facts(names: Sequence[str], summaries: Sequence[Summary]) -> dict[str, dict[str, str]]:
    """The settings of every run, by its name."""
    return {
        f"{name}: {section}": found
        for name, summary in zip(names, summaries, strict=True)
        for section, found in facts(summary.folder.read_config(), summary.folder.read_manifest()).items()
    }
