"""From the files of a run to its results: the one way that eval, score and report take."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval import results
from eval.compute import OnAxis, on_axis
from eval.curves import MISSING, GradedSample, Shape, uncounted
from eval.examples import Example, Examples
from eval.outcomes import outcome_of
from eval.policies import Policy
from eval.results import Results
from eval.voted import Voting
from reasoning.budget import check
from reasoning.config import ConfigError
from reasoning.costing import ChosenAxis, find_work
from reasoning.drawn import owed_samples, stored_policy
from reasoning.eval_config import EvalConfig
from reasoning.kv_cache import KvCache, KvGrowth, growth
from reasoning.pages import describe_settings, line_names, show_run
from reasoning.profiling import read_throughput
from reasoning.prompts import ThinkMarkers
from reasoning.run_folder import RunFolder
from reasoning.tasks.countdown import LEVELS
from reasoning.types import FinishReason, Generation, SampleKey, Task
from verifiers.base import Verdict
from verifiers.sandbox import Outcome, Tier


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a run folder, what they rest on, and the files that show them."""

    folder: RunFolder
    results: Results
    plots: tuple[Path, ...]
    samples: tuple[GradedSample, ...]
    tasks: Mapping[str, Task]
    voting: Voting | None
    costed: OnAxis | None = None  # what accuracy is drawn against, where that is not tokens


def summarise(folder: RunFolder, policies: Sequence[Policy] = (), chosen: ChosenAxis | None = None) -> Summary:
    """Recount every stored generation, join it with its verdict, and rewrite results.json, results.csv, plots, report.

    A generation that is not graded yet counts as unfinished. A run without any result has no plots. `policies` are
    replayed on the samples. `chosen`: what accuracy is drawn against in place of tokens.

    Raises:
        ConfigError: a policy, or an axis, needs something that the run does not have.
    """
    config, manifest, tasks = folder.read_config(), folder.read_manifest(), folder.read_tasks()
    run = describe_run(config, manifest)
    if policies:
        check_replayable(folder)
    found = _read(folder, manifest, tasks)
    samples = sorted(found.samples.values(), key=lambda sample: sample.key)
    planned, voting = _planned(config, manifest, tasks, samples)
    built = results.build(
        samples,
        run,
        planned=planned,
        violations=[found.violations[key] for key in sorted(found.violations)],
        redrawn=len(found.redrawn),
        cost=_cost(folder, found),
        policies=policies,
        throughput=read_throughput(folder, manifest, samples),
        kv=_kv_growth(folder, manifest),
        voting=voting,
        ungraded=len(found.ungraded),
    )
    if "imported" in run:
        built = _without_tokens(built)
    work = find_work(folder, config, manifest, required=chosen is not None)
    if work is not None and samples:
        built = replace(built, compute=work.as_json(samples))
    costed = None
    if chosen is not None and work is not None:
        costed = on_axis(built, samples, chosen.axis, work, chosen.price_per_hour, policies, voting)
    results.write(built, folder.path)
    figures = show_run(folder, built, samples, found.read_examples(), costed, work)
    files = tuple(path for files in figures for path in files)
    return Summary(folder, built, files, tuple(samples), tasks, voting, costed)


def _planned(
    config: Mapping[str, Any], manifest: Mapping[str, Any], tasks: Iterable[str], samples: Sequence[GradedSample]
) -> tuple[int, Voting | None]:
    """How many samples a run has when it is complete, as far as they tell, and whether a policy decides that."""
    policy = stored_policy(config, manifest)
    if policy is None:
        return manifest["planned"], None
    owed = owed_samples(policy, tasks, samples)
    largest = EvalConfig.model_validate(config).budgets[-1]
    planned = sum(one.status != MISSING for one in samples) + sum(owed.values())
    return planned, Voting(config["policy"], largest, owed)


def check_replayable(folder: RunFolder) -> None:
    """Policies spend tokens, on samples that thought to their end.

    Raises:
        ConfigError: this run has no such samples.
    """
    run = describe_run(folder.read_config(), folder.read_manifest())
    if "imported" in run:
        raise ConfigError(
            f"{folder.path} holds completions of another tool, whose tokens nobody counted: "
            "no policy can be replayed; leave --policy out"
        )
    if run["stopping"]:
        raise ConfigError(
            f"{folder.path} was sampled under {run['stopping']}: what that left out, further thinking or further "
            "samples, is not stored. Replay policies on a run without one, and compare the two"
        )


def _without_tokens(built: Results) -> Results:
    """The results of completions whose tokens nobody counted: no statement that rests on tokens is left."""
    levels = {level: uncounted(points) for level, points in built.levels.items()}
    shape = Shape(None, built.shape.saturation, built.shape.steepest_fall, None)
    cost = dict.fromkeys(built.cost, math.nan)
    return replace(built, points=uncounted(built.points), levels=levels, shape=shape, parallel=(), cost=cost)


def plot(runs: Sequence[tuple[Path, Results]], stem: Path, names: Sequence[str] = ()) -> tuple[Path, ...]:
    """Accuracy against tokens spent, one line a run, each with the folder that it lies in and perhaps its name."""
    from eval.plots import accuracy_curve  # matplotlib: half a second

    outcomes = [outcome for _, outcome in runs]
    return tuple(
        accuracy_curve(
            [outcome.points for outcome in outcomes],
            stem,
            names=names or line_names([(path, outcome.run) for path, outcome in runs]),
            note=" ".join(dict.fromkeys(map(describe_settings, outcomes))),
            partial=any(outcome.is_partial for outcome in outcomes),
        )
    )


def describe_run(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Names and settings that stand beside the numbers in results.json."""
    return {
        "model": Path(config["model"]).name,  # a folder given as `.` is stored by its path
        "task_set": _task_set(config),
        "method": _method(config, manifest),
        "n_tasks": manifest["n_tasks"],
        "samples": config["samples"],
        "seed": config["seed"],
        "closing": config["closing"],
        **{name: config["sampling"][name] for name in ("temperature", "top_p", "top_k", "min_p")},
        "max_answer_tokens": config["max_answer_tokens"],
        "waits": config["extension"]["waits"],
        "stopping": config.get("policy"),  # a run of an earlier version has none
        "data_sha256": manifest["data_sha256"],
        "template_sha256": manifest["template_sha256"],
        "policy": manifest.get("policy"),  # a run of an earlier version has none
        "policy_hash": manifest.get("policy_hash"),
        **({"imported": manifest["imported"]} if "imported" in manifest else {}),
        **_about_programs(manifest),
    }


def _method(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    if "imported" in manifest:
        return "completions of another tool"
    return "truncation" if config["closing"] == "none" else "forced answer"


def _about_programs(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the programs of code tasks ran in, the weakest of all attempts, and how many problems were left out."""
    tiers = {attempt.get("sandbox") for attempt in manifest["attempts"]}
    weakest = next((tier.value for tier in reversed(Tier) if tier in tiers), None)
    calibration = manifest.get("calibration")
    facts = {} if weakest is None else {"sandbox": weakest}
    return facts if calibration is None else facts | {"left_out": sorted(calibration["left_out"])}


def _task_set(config: Mapping[str, Any]) -> str:
    """A file's name without its suffix; with it how many numbers, if countdown was run on a part of its levels."""
    levels = sorted(set(config["countdown"]["levels"]))
    if config["tasks"] != "countdown" or levels == list(LEVELS):
        return Path(config["tasks"]).stem
    return f"countdown ({', '.join(map(str, levels))} numbers)"


@dataclass(slots=True)
class _Found:
    samples: dict[SampleKey, GradedSample]
    violations: dict[SampleKey, str]
    longest: dict[tuple[str, int], _Thinking]
    redrawn: set[tuple[str, int]]
    ungraded: set[SampleKey]
    examples: Examples
    decoded_tokens: int = 0
    cached_tokens: int = 0

    def read_examples(self) -> list[Example]:
        """Without those of a failure that was drawn again later."""
        return [
            example
            for example in self.examples
            if outcome_of(self.samples[SampleKey(example.task_id, example.sample, example.budget)]) is example.outcome
        ]


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


def _kv_growth(folder: RunFolder, manifest: Mapping[str, Any]) -> KvGrowth | None:
    """What the run took of the KV cache; None if its engine, or the version that ran it, did not say."""
    attempts = []
    for number, states in folder.read_states().items():
        engine = manifest["attempts"][number - 1].get("engine", {})
        if "kv_cache" not in engine:
            return None
        attempts.append((KvCache.from_json(engine["kv_cache"]), states))
    return growth(attempts, manifest["max_model_len"]) if attempts else None


def _read(folder: RunFolder, manifest: Mapping[str, Any], tasks: Mapping[str, Task]) -> _Found:
    config, verdicts = folder.read_config(), folder.read_verdicts()
    think = manifest["think"]
    markers = ThinkMarkers(tuple(think["open_ids"]), tuple(think["close_ids"]))
    found = _Found({}, {}, {}, set(), set(), Examples())
    for generation in folder.read_generations():
        key = generation.key
        found.decoded_tokens += generation.decoded_tokens
        found.cached_tokens += generation.cached_tokens
        if generation.finish_reason != FinishReason.ERROR:
            _compare(found, generation)
        if "imported" not in manifest:  # completions of another tool have no ids to count
            violation = check(generation, markers, think["starts_open"], max_answer_tokens=config["max_answer_tokens"])
            if violation is not None:
                found.violations[key] = violation
        if generation.finish_reason == FinishReason.ERROR or key in verdicts:
            found.samples[key] = graded_sample(generation, tasks[key.task_id], verdicts.get(key))
            found.examples.offer(found.samples[key], generation, tasks[key.task_id], verdicts.get(key))
        else:
            found.ungraded.add(key)
    return found


def read_samples(folder: RunFolder) -> list[GradedSample]:
    """The graded samples of a run, by key; those without a verdict are left out."""
    tasks, verdicts = folder.read_tasks(), folder.read_verdicts()
    rows = {row.key: row for row in folder.read_generations()}
    return [graded_sample(rows[key], tasks[key.task_id], verdicts[key]) for key in sorted(rows) if key in verdicts]


def graded_sample(generation: Generation, task: Task, verdict: Verdict | None) -> GradedSample:
    """One generation with its verdict.

    It is missing if the engine failed on it, whatever a verifier would say, or if the sandbox did: that says nothing
    about the program and must not count as a wrong one.
    """
    missing = verdict is None or generation.finish_reason == FinishReason.ERROR or verdict.rule == Outcome.SANDBOX_ERROR
    return GradedSample(
        key=generation.key,
        level=task.level,
        status=MISSING if missing else verdict.status.value,
        thinking_tokens=generation.thinking_tokens,
        answer_tokens=generation.answer_tokens,
        finish_reason=generation.finish_reason,
        bound=generation.bound and not (generation.stopped and generation.thinking_tokens < generation.key.budget),
        forced=generation.forced,
        escaped=generation.escaped,
        looped=generation.looped,
        extracted=None if missing else verdict.extracted,
        form=None if missing else verdict.answer_form or None,
        probe_tokens=generation.probe_tokens,
        answer_confidence=generation.answer_confidence,
        thinking_confidence=generation.thinking_confidence,
        injected_thinking=generation.injected_thinking,
        injected_answer=generation.injected_answer,
        seconds=generation.timings.total_s or None,
        first_s=generation.timings.sample_first_s,
        answer_s=generation.timings.sample_answer_s,
        prompt_tokens=len(generation.prompt_ids),
        completion_tokens=len(generation.completion_ids),
        decoded_tokens=generation.decoded_tokens,
    )
