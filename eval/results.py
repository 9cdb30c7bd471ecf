"""results.json and results.csv: what a run found, in a form that others can read for years.

Schema 2 of results.json: `run` (names and settings), `status` (complete or partial), `planned` and `finished`
samples, `points` (one a budget, the fields of `reasoning.types.CurvePoint` and the budget's label), `levels` (the
same for each level of difficulty, when there are several), `differences` (what each step to a larger budget gained,
paired by task), `shape` (of the curve as a whole, without budget 0: log-linear fit, saturation, steepest fall, s1's
control, scaling and performance), `parallel` (accuracy of a majority of k samples at each budget, the fields of
`eval.allocation.MapPoint`; empty with one sample a task), `policies` (those that were asked for, the fields of
`eval.savings.PolicyResult`), `warnings`, `violations` (samples over their budget), `redrawn` (samples whose
budgets do not share one trace, because an interrupted run drew them again and they came out differently), `cost` and
`kv_cache` (of `reasoning.kv_cache.KvGrowth`, null where the engine did not say), the only parts in which a resumed
run differs from one that was not interrupted. The budget `none` is null, and so is a rate of no samples.

`cost` has `decoded_tokens` and `cached_tokens` (sums over the stored generations), and `engine_tokens` and
`engine_seconds` (what the engine generated and how long it ran over all attempts, work that an interruption threw away
included; of an attempt that was killed, its last second may be missing). `compute` has what the engine computed and
moved (`eval.compute.RunWork`), null for a model of an unknown family. `throughput` has the fields of
`eval.throughput.Throughput` but `step_times`; it is null for a run that was not profiled.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from eval.allocation import MapPoint, map_of
from eval.curves import MISSING, Difference, GradedSample, Shape, curve, differences, shape
from eval.policies import Policy, apply_policies
from eval.savings import PolicyResult
from eval.throughput import Throughput
from eval.voted import Voting, voted_curve
from reasoning.budgets import format_budget, json_budget
from reasoning.files import write_json, write_text
from reasoning.kv_cache import KvGrowth
from reasoning.types import CurvePoint
from verifiers.base import Status

SCHEMA = 2
WORTH_SAYING = 0.05
"""A share of samples above which a fact that weakens the numbers is said first."""

_DOUBTS: tuple[tuple[str, Callable[[CurvePoint], float], float], ...] = (
    ("the verifier failed", lambda point: point.verifier_failed_share, 0.0),
    ("no answer", lambda point: point.no_answer_share, WORTH_SAYING),
    ("thinking went on in the answer, or the answer filled its room", lambda point: point.escaped_share, WORTH_SAYING),
    ("the thinking ended in a loop", lambda point: point.looped_share, WORTH_SAYING),
)
_NESTED = ("pass_at", "majority_at", "statuses", "finish_reasons")
_COLUMNS = [field.name for field in fields(CurvePoint) if field.name not in _NESTED]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a run found, ready to write, print and plot."""

    run: Mapping[str, Any]  # names and settings: model, task_set, method, samples, temperature ...
    planned: int
    finished: int
    missing: int  # samples that the engine failed on
    failed: int  # samples that the engine or the verifier failed on
    points: tuple[CurvePoint, ...]
    levels: Mapping[str, tuple[CurvePoint, ...]]
    differences: tuple[Difference, ...]
    shape: Shape
    parallel: tuple[MapPoint, ...]
    policies: tuple[PolicyResult, ...]
    violations: tuple[str, ...]
    redrawn: int
    cost: Mapping[str, float]
    throughput: Throughput | None = None  # of a run that was profiled
    kv: KvGrowth | None = None  # None: the engine did not say
    compute: Mapping[str, float | None] | None = None  # None: nothing is known of such a model
    ungraded: int = 0  # stored answers without a verdict: not among the finished ones

    @property
    def is_partial(self) -> bool:
        return self.finished < self.planned

    @property
    def is_unfinished(self) -> bool:
        """Whether samples are still to come. Completions of another tool are all there, however many a task has."""
        return self.is_partial and "imported" not in self.run

    @property
    def can_be_drawn(self) -> bool:
        """Whether there is accuracy and a number of tokens to draw it against."""
        return any(point.n_samples and not math.isnan(point.tokens_mean) for point in self.points)

    @property
    def failed_share(self) -> float:
        return self.failed / self.finished if self.finished else 0.0

    @property
    def warnings(self) -> list[str]:
        """What would invalidate or weaken the numbers, the worst first."""
        return list(_warnings(self))


def build(
    samples: Sequence[GradedSample],
    run: Mapping[str, Any],
    planned: int,
    violations: Sequence[str],
    redrawn: int,
    cost: Mapping[str, float],
    policies: Sequence[Policy] = (),
    throughput: Throughput | None = None,
    kv: KvGrowth | None = None,
    voting: Voting | None = None,
    ungraded: int = 0,
) -> Results:
    """Aggregate graded samples. `run` needs `model`, `task_set`, `method` and `seed`.

    With `voting`, a policy decided which samples were drawn: nothing is said that takes as many of every task.

    Raises:
        ConfigError: one of the `policies` cannot be replayed on these samples.
    """
    names = {name: run[name] for name in ("model", "task_set", "method", "seed")}
    levels = sorted({sample.level for sample in samples if sample.level is not None}, key=_in_order)
    points_of = curve if voting is None else partial(voted_curve, voting=voting)
    by_level = {one: tuple(points_of([s for s in samples if s.level == one], **names)) for one in levels}
    alike = samples if voting is None else ()
    return Results(
        run=run,
        planned=planned,
        finished=len(samples),
        missing=sum(sample.status == MISSING for sample in samples),
        failed=sum(sample.status in (MISSING, Status.TIMEOUT, Status.ERROR) for sample in samples),
        points=tuple(points_of(samples, **names)),
        levels={level: points for level, points in by_level.items() if points and len(levels) > 1},
        differences=tuple(differences(alike, seed=run["seed"])),
        shape=shape(alike, seed=run["seed"]),
        parallel=tuple(map_of(alike, seed=run["seed"])),
        policies=tuple(apply_policies(policies, samples, seed=run["seed"])),
        violations=tuple(violations),
        redrawn=redrawn,
        cost=cost,
        throughput=throughput,
        kv=kv,
        ungraded=ungraded,
    )


def _in_order(level: str) -> tuple[float, str]:
    """Levels that are numbers by their value, before those that are words."""
    return (int(level) if level.isdecimal() else math.inf), level


def write(results: Results, folder: Path) -> None:
    """Replace results.json and results.csv in `folder`, each as a whole."""
    write_json(folder / "results.json", as_json(results))
    table = io.StringIO()
    rows = csv.DictWriter(table, fieldnames=[*_COLUMNS, "level"], extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    for level, points in {"all": results.points, **results.levels}.items():
        rows.writerows({**_fields(point), "budget": format_budget(point.budget), "level": level} for point in points)
    write_text(folder / "results.csv", table.getvalue())


def as_json(results: Results) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run": dict(results.run),
        "status": "partial" if results.is_partial else "complete",
        "planned": results.planned,
        "finished": results.finished,
        "points": [_point(point) for point in results.points],
        "levels": {level: [_point(point) for point in points] for level, points in results.levels.items()},
        "differences": [_row(difference) for difference in results.differences],
        "shape": _shape(results.shape),
        "parallel": [_row(point) | {"label": format_budget(point.budget)} for point in results.parallel],
        "policies": [_row(policy) for policy in results.policies],
        "kv_cache": _kv_cache(results),
        "warnings": results.warnings,
        "violations": list(results.violations),
        "redrawn": results.redrawn,
        "cost": {name: None if math.isnan(value) else value for name, value in results.cost.items()},
        "compute": results.compute,
        "throughput": None if results.throughput is None else results.throughput.as_json(),
    }


def _kv_cache(results: Results) -> dict[str, Any] | None:
    if results.kv is None:
        return None
    correct = sum(point.statuses.get(Status.CORRECT, 0) for point in results.points)
    return results.kv.as_json(correct=correct, samples=results.finished)


def _point(point: CurvePoint) -> dict[str, Any]:
    return {**_row(point), "label": format_budget(point.budget)}


def _shape(shape: Shape) -> dict[str, Any]:
    """Each part with its fields, null where the run does not have what it takes."""
    parts = {field.name: getattr(shape, field.name) for field in fields(shape)}
    return {name: None if part is None else _row(part) for name, part in parts.items()}


def _row(row: Any) -> dict[str, Any]:
    """The fields of a row, its budgets as in all of the file."""
    return {name: json_budget(value) if name.startswith("budget") else value for name, value in _fields(row).items()}


def _fields(row: Any) -> dict[str, Any]:
    """The fields of a row; a rate of no samples is None, since JSON has no NaN."""
    values = asdict(row).items()
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values}


def _warnings(results: Results) -> Iterator[str]:
    if results.violations:
        count = f"{len(results.violations):,} of {results.finished:,} samples"
        yield f"{count} did not honour their budget, so the numbers mean nothing: {results.violations[0]}"
    if results.run.get("sandbox", "full") != "full":
        tier = results.run["sandbox"]
        yield f"programs ran in a sandbox of tier {tier}, not full; docs/sandbox.md says what it lacks"
    if left_out := results.run.get("left_out"):
        yield f"{len(left_out):,} problems are left out, since their reference solution fails here: {_few(left_out)}"
    if without := results.run.get("imported", {}).get("tasks_left_out"):
        yield f"tasks without a completion in the file, which are left out: {without:,}"
    if results.is_partial:
        yield f"partial run: {results.finished:,} of {results.planned:,} samples; {_bias(results)}"
    if results.ungraded:
        yield f"stored answers without a verdict, in no rate: {results.ungraded:,}; reasoning.score RUN grades them"
    if results.redrawn:
        yield (
            f"{results.redrawn:,} samples were drawn again after an interruption and came out differently: "
            "their budgets do not share one trace"
        )
    if results.missing:
        count = f"{results.missing:,} of {results.finished:,} samples"
        engine = "the other tool" if "imported" in results.run else "the engine"
        who = f"{engine} or the sandbox" if "sandbox" in results.run else engine
        yield f"{who} failed on {count}; they are in no rate"
    thought = [point.thinking_mean for point in results.points if point.budget > 0 and point.n_samples]
    if thought and max(thought) == 0:
        yield "the model never began to think: no sample has a thinking token, so the budgets measure nothing"
    if results.kv is not None and results.kv.preemptions:
        yield (
            f"the KV cache was full: {results.kv.preemptions:,} preemptions, {results.kv.recomputed_tokens:,} tokens "
            "computed again, which costs time and no accuracy; fewer requests at once (--engine.max_num_seqs) or a "
            "larger cache (--engine.kv_cache_gb) avoid it"
        )
    for what, share, floor in _DOUBTS:
        above = [point for point in results.points if share(point) > floor]
        if above:
            where = ", ".join(f"{_percent(share(point))} at {format_budget(point.budget)}" for point in above)
            yield f"{what}: {where} (share of the samples at that budget)"


def _bias(results: Results) -> str:
    """What the samples that are not there do to the numbers."""
    if not results.is_unfinished:
        return "the tasks have different numbers of samples"
    if any(point.vote != "none" for point in results.points):
        return "undecided tasks, the harder ones as a rule, are in no rate"
    return "short ones finish first and are more often right, so accuracy may be far too high and no interval holds"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"
