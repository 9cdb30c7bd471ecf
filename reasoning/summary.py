"""From the files of a run to its results: the one way that eval, score and report take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import results
from eval.curves import MISSING, GradedSample
from eval.results import Results
from reasoning.budget import check
from reasoning.prompts import ThinkMarkers
from reasoning.run_folder import RunFolder
from reasoning.types import FinishReason, Generation, SampleKey, Task
from verifiers.base import Verdict


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a run folder and the files that show them."""

    folder: RunFolder
    results: Results
    plots: tuple[Path, ...]


def summarise(folder: RunFolder) -> Summary:
    """Recount every stored generation, join it with its verdict, and rewrite results.json, results.csv and the plot.

    A generation that is not graded yet counts as unfinished. A run without any result has no plot.
    """
    manifest = folder.read_manifest()
    found = _read(folder, manifest)
    run = describe_run(folder.read_config(), manifest)
    seconds = manifest.get("seconds")
    outcome = results.build(
        sorted(found.samples.values(), key=lambda sample: sample.key),
        run,
        planned=manifest["planned"],
        violations=[found.violations[key] for key in sorted(found.violations)],
        cost={"decoded_tokens": found.decoded_tokens, "cached_tokens": found.cached_tokens, "seconds": seconds},
    )
    results.write(outcome, folder.path)
    plots = plot([outcome], folder.plots / "accuracy") if outcome.can_be_drawn else ()
    return Summary(folder, outcome, plots)


def plot(outcomes: Iterable[Results], stem: Path) -> tuple[Path, ...]:
    """Accuracy against tokens spent, one line a run."""
    from eval.plots import accuracy_curve  # matplotlib: half a second

    outcomes = list(outcomes)
    notes = dict.fromkeys(_note(outcome) for outcome in outcomes)
    return tuple(accuracy_curve([outcome.points for outcome in outcomes], stem, note=" ".join(notes)))


def describe_run(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Names and settings that stand beside the numbers in results.json."""
    return {
        "model": Path(config["model"]).name,
        "task_set": Path(config["tasks"]).stem,
        "method": "truncation" if config["closing"] == "none" else "forced answer",
        "n_tasks": manifest["n_tasks"],
        "samples": config["samples"],
        "seed": config["seed"],
        "closing": config["closing"],
        "temperature": config["sampling"]["temperature"],
        "top_p": config["sampling"]["top_p"],
        "max_answer_tokens": config["max_answer_tokens"],
        "waits": config["extension"]["waits"],
        "data_sha256": manifest["data_sha256"],
        "template_sha256": manifest["template_sha256"],
    }


def _note(outcome: Results) -> str:
    run = outcome.run
    facts = [f"Temperature {run['temperature']:g}", f"top-p {run['top_p']:g}", f"closing {run['closing']}"]
    if run["waits"]:
        facts.append(f"up to {run['waits']} waits")
    if outcome.is_partial:
        facts.append(f"PARTIAL: {outcome.finished:,} of {outcome.planned:,} samples")
    return ", ".join(facts) + "."


@dataclass(slots=True)
class _Found:
    samples: dict[SampleKey, GradedSample]
    violations: dict[SampleKey, str]
    decoded_tokens: int = 0
    cached_tokens: int = 0


def _read(folder: RunFolder, manifest: Mapping[str, Any]) -> _Found:
    tasks, verdicts = folder.read_tasks(), folder.read_verdicts()
    think = manifest["think"]
    markers = ThinkMarkers(tuple(think["open_ids"]), tuple(think["close_ids"]))
    found = _Found({}, {})
    for generation in folder.read_generations():
        key = generation.key
        found.decoded_tokens += generation.decoded_tokens
        found.cached_tokens += generation.cached_tokens
        violation = check(generation, markers, think["starts_open"])
        if violation is not None:
            found.violations[key] = violation
        if generation.finish_reason == FinishReason.ERROR or key in verdicts:
            found.samples[key] = graded_sample(generation, tasks[key.task_id], verdicts.get(key))
    return found


def graded_sample(generation: Generation, task: Task, verdict: Verdict | None) -> GradedSample:
    """One generation with its verdict; one that the engine failed on is missing, whatever a verifier would say."""
    missing = verdict is None or generation.finish_reason == FinishReason.ERROR
    return GradedSample(
        key=generation.key,
        level=task.level,
        status=MISSING if missing else verdict.status.value,
        thinking_tokens=generation.thinking_tokens,
        answer_tokens=generation.answer_tokens,
        decoded_tokens=generation.decoded_tokens,
        bound=generation.bound,
        forced=generation.forced,
        escaped=generation.escaped,
        looped=generation.looped,
        extracted=None if missing else verdict.extracted,
    )
