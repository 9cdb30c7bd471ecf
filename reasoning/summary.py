"""From the files of a run to its results: the one way that eval, score and report take."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval import results
from eval.curves import MISSING, GradedSample
from eval.results import Results
from reasoning.budget import check
from reasoning.prompts import ThinkMarkers
from reasoning.run_folder import RunFolder
from reasoning.tasks.countdown import LEVELS
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
    outcome = results.build(
        sorted(found.samples.values(), key=lambda sample: sample.key),
        run,
        planned=manifest["planned"],
        violations=[found.violations[key] for key in sorted(found.violations)],
        redrawn=len(found.redrawn),
        cost=_cost(folder, found),
    )
    results.write(outcome, folder.path)
    plots = plot([(folder.path, outcome)], folder.plots / "accuracy") if outcome.can_be_drawn else ()
    return Summary(folder, outcome, plots)


def plot(runs: Sequence[tuple[Path, Results]], stem: Path) -> tuple[Path, ...]:
    """Accuracy against tokens spent, one line a run, each with the folder that it lies in."""
    from eval.plots import accuracy_curve  # matplotlib: half a second

    outcomes = [outcome for _, outcome in runs]
    return tuple(
        accuracy_curve(
            [outcome.points for outcome in outcomes],
            stem,
            names=_line_names(runs),
            note=" ".join(dict.fromkeys(map(_note, outcomes))),
            partial=any(outcome.is_partial for outcome in outcomes),
        )
    )


def describe_run(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Names and settings that stand beside the numbers in results.json."""
    return {
        "model": Path(config["model"]).name,  # a folder given as `.` is stored by its path
        "task_set": _task_set(config),
        "method": "truncation" if config["closing"] == "none" else "forced answer",
        "n_tasks": manifest["n_tasks"],
        "samples": config["samples"],
        "seed": config["seed"],
        "closing": config["closing"],
        **{name: config["sampling"][name] for name in ("temperature", "top_p", "top_k", "min_p")},
        "max_answer_tokens": config["max_answer_tokens"],
        "waits": config["extension"]["waits"],
        "data_sha256": manifest["data_sha256"],
        "template_sha256": manifest["template_sha256"],
    }


def describe_sampling(settings: Mapping[str, Any]) -> list[str]:
    """How tokens are drawn, in words; top-k and min-p only when they are on."""
    facts = [f"temperature {settings['temperature']:g}", f"top-p {settings['top_p']:g}"]
    if settings["top_k"]:
        facts.append(f"top-k {settings['top_k']}")
    if settings["min_p"]:
        facts.append(f"min-p {settings['min_p']:g}")
    return facts


def _task_set(config: Mapping[str, Any]) -> str:
    """A file's name without its suffix; with it how many numbers, if countdown was run on a part of its levels."""
    levels = sorted(set(config["countdown"]["levels"]))
    if config["tasks"] != "countdown" or levels == list(LEVELS):
        return Path(config["tasks"]).stem
    return f"countdown ({', '.join(map(str, levels))} numbers)"


def _line_names(runs: Sequence[tuple[Path, Results]]) -> list[str]:
    """The models where they differ, else the run folders, by their whole paths if need be."""
    models = [outcome.run["model"] for _, outcome in runs]
    folders = [path.resolve().name for path, _ in runs]
    return next(
        (names for names in (models, folders) if len(set(names)) == len(runs)),
        [str(path) for path, _ in runs],
    )


def _note(outcome: Results) -> str:
    run = outcome.run
    facts = [*describe_sampling(run), f"closing {run['closing']}"]
    if run["waits"]:
        facts.append(f"up to {run['waits']} waits")
    if outcome.is_partial:
        facts.append(f"PARTIAL: {outcome.finished:,} of {outcome.planned:,} samples")
    note = ", ".join(facts) + "."
    return note[0].upper() + note[1:]


@dataclass(slots=True)
class _Found:
    samples: dict[SampleKey, GradedSample]
    violations: dict[SampleKey, str]
    longest: dict[tuple[str, int], _Thinking]
    redrawn: set[tuple[str, int]]
    decoded_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Thinking:
    """What a row says about the trace behind it: it thought these ids, and more if a budget cut it there."""

    ids: array[int]
    bound: bool

    @classmethod
    def of(cls, generation: Generation) -> _Thinking:
        ids = array("I")  # a tenth of a tuple: one is kept for every sample of the run
        for start, end in generation.thinking:
            ids.extend(generation.completion_ids[start:end])
        return cls(ids, generation.bound)

    def fits(self, longer: _Thinking) -> bool:
        """Whether both may be of one trace."""
        same = len(self.ids) == len(longer.ids)
        return longer.ids[: len(self.ids)] == self.ids and (same or self.bound)


def _compare(found: _Found, generation: Generation) -> None:
    """Note the sample if this row cannot be of the trace that its other rows are of."""
    sample = generation.key.task_id, generation.key.sample
    thinking = _Thinking.of(generation)
    shorter, longer = sorted((thinking, found.longest.get(sample, thinking)), key=lambda one: len(one.ids))
    found.longest[sample] = longer
    if not shorter.fits(longer):
        found.redrawn.add(sample)


def _cost(folder: RunFolder, found: _Found) -> dict[str, float]:
    attempts = folder.read_last_states().values()
    return {
        "decoded_tokens": found.decoded_tokens,
        "cached_tokens": found.cached_tokens,
        "engine_tokens": sum(state["generated_tokens"] for state in attempts),
        "engine_seconds": round(sum(state["time_s"] for state in attempts), 3),
    }


def _read(folder: RunFolder, manifest: Mapping[str, Any]) -> _Found:
    config, tasks, verdicts = folder.read_config(), folder.read_tasks(), folder.read_verdicts()
    think = manifest["think"]
    markers = ThinkMarkers(tuple(think["open_ids"]), tuple(think["close_ids"]))
    found = _Found({}, {}, {}, set())
    for generation in folder.read_generations():
        key = generation.key
        found.decoded_tokens += generation.decoded_tokens
        found.cached_tokens += generation.cached_tokens
        if generation.finish_reason != FinishReason.ERROR:
            _compare(found, generation)
        violation = check(generation, markers, think["starts_open"], max_answer_tokens=config["max_answer_tokens"])
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
        finish_reason=generation.finish_reason,
        bound=generation.bound,
        forced=generation.forced,
        escaped=generation.escaped,
        looped=generation.looped,
        extracted=None if missing else verdict.extracted,
    )
