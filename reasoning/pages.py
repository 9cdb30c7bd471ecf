"""What a run folder shows to people: its figures and its report, with the settings and commands that belong to them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.compute import OnAxis, RunWork
from eval.curves import GradedSample
from eval.examples import Example
from eval.results import Results
from reasoning import console
from reasoning.budget.policies import draws_samples
from reasoning.config import flatten
from reasoning.files import write_text
from reasoning.run_folder import RunFolder


def show_run(
    folder: RunFolder,
    outcome: Results,
    samples: Sequence[GradedSample],
    examples: Sequence[Example],
    costed: OnAxis | None = None,
    work: RunWork | None = None,
) -> list[list[Path]]:
    """Draw every figure that the run has data for and write report.html; the files of each figure.

    `costed` is what accuracy is drawn against in place of tokens; `work` is needed for the roofline.
    """
    from eval.gallery import draw_run  # matplotlib: half a second
    from eval.report import run_report

    config, manifest = folder.read_config(), folder.read_manifest()
    figures = draw_run(
        outcome,
        samples,
        folder.plots,
        name=outcome.run["model"],
        note=describe_settings(outcome),
        device=_device(manifest),
        costed=costed,
        work=work,
    )
    page = run_report(outcome, figures, examples, facts(config, manifest), _commands(folder, manifest))
    write_text(folder.report, page)
    return figures


def facts(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Settings of a run and where its numbers come from, by section, as text."""
    attempts = manifest["attempts"]
    origin = {name: value for name, value in manifest.items() if name not in ("attempts", "think", "model_config")}
    sections = {"Settings, every default filled in": config, "Where the numbers come from": origin}
    sections |= {f"Attempt {number}": attempt for number, attempt in enumerate(attempts, start=1)}
    return {
        title: {name: _shown(value) for name, value in flatten(section).items()} for title, section in sections.items()
    }


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _commands(folder: RunFolder, manifest: Mapping[str, Any]) -> dict[str, str]:
    path = str(folder.path)
    first = next((attempt["command"] for attempt in manifest["attempts"] if "command" in attempt), None)
    purpose = "Make this run again (in a new folder: change or leave out --out)"
    again = {} if first is None else {purpose: shlex.join(first)}
    return again | {
        "Grade the stored answers again": console.command_line("reasoning.score", path),
        "Make this report again": console.command_line("reasoning.report", path),
        "Compare with another run": console.command_line("reasoning.report", path, "OTHER_RUN"),
    }


def _device(manifest: Mapping[str, Any]) -> str:
    engines = [attempt.get("engine", {}) for attempt in manifest["attempts"]]
    return ", ".join(dict.fromkeys(str(engine.get("device", "an unnamed device")) for engine in engines)) or "no device"


def describe_settings(outcome: Results) -> str:
    """The settings that a caption names."""
    run = outcome.run
    facts = [] if "imported" in run else [*describe_sampling(run), f"closing {run['closing']}"]
    if run["waits"]:
        facts.append(f"up to {run['waits']} waits")
    if run["stopping"] and draws_samples(run["stopping"]):
        facts.append(f"policy {run['stopping']}: one vote a task, tokens of all its samples")
    elif run["stopping"]:
        facts.append(f"policy {run['stopping']}")
    if outcome.is_partial:
        facts.append(f"PARTIAL: {outcome.finished:,} of {outcome.planned:,} samples")
    if not facts:
        return ""
    note = ", ".join(facts) + "."
    return note[0].upper() + note[1:]


def describe_sampling(settings: Mapping[str, Any]) -> list[str]:
    """How tokens are drawn, in words; top-k and min-p only when they are on."""
    facts = [f"temperature {settings['temperature']:g}", f"top-p {settings['top_p']:g}"]
    if settings["top_k"]:
        facts.append(f"top-k {settings['top_k']}")
    if settings["min_p"]:
        facts.append(f"min-p {settings['min_p']:g}")
    return facts


def line_names(runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """What tells runs apart: the models, the closings or the policies, else the folders, else their paths.

    Each run is given by its folder and what `reasoning.summary.describe_run` says of it.
    """
    results = [run for _, run in runs]
    candidates = (
        [run["model"] for run in results],
        [f"closing {run['closing']}" for run in results],
        [f"policy {run['stopping'] or 'none'}" for run in results],
        [path.resolve().name for path, _ in runs],
    )
    return next((names for names in candidates if len(set(names)) == len(runs)), [str(path) for path, _ in runs])
