"""Several runs on the tasks that they have in common: each against the first, task by task.

A task is the same when its id and all that decides its verdict are; prompts may differ, since models want them so.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eval.comparison import detectable_difference, holm, noise_floor, paired_test
from eval.curves import MISSING, GradedSample, curve, task_rates, uncounted
from eval.statistics import LEVEL, difference_interval
from eval.voted import Voting, voted_curve, voted_rates
from eval.wording import points, said_p
from reasoning.budgets import format_budget
from reasoning.types import CurvePoint, Task


@dataclass(frozen=True, slots=True)
class Run:
    """What a comparison needs of a run. Equal `settings`, which are those but the seed, make it the same run again."""

    name: str
    model: str
    task_set: str
    method: str
    tasks: Mapping[str, Task]
    samples: Sequence[GradedSample]
    settings: Mapping[str, object]
    seed: int = 0
    counted: bool = True  # whether its tokens are known
    unfinished: bool = False  # samples are still to come: those that are there are the short ones, more often right
    voting: Voting | None = None  # a policy drew its samples: each task has one result, its vote


@dataclass(frozen=True, slots=True)
class Contrast:
    """Accuracy of `run` minus that of `reference` at one budget, paired over the `n_tasks` tasks that both have.

    `p_holm` holds for all contrasts of the comparison together.
    """

    run: str
    reference: str
    budget: int
    n_tasks: int
    accuracy: float
    reference_accuracy: float
    delta: float
    low: float
    high: float
    p_value: float
    p_holm: float
    detectable: float  # as in `eval.curves.Difference`, of all contrasts of the comparison
    unfinished: bool  # one of the two runs is

    @property
    def is_difference(self) -> bool:
        return self.p_holm < 1 - LEVEL and not self.unfinished


@dataclass(frozen=True, slots=True)
class Noise:
    """How uncertain a run is by itself, told by a second run of the same settings: standard deviations by budget.

    With another seed that is what sampling does; with the same seed, what the machine does not reproduce.
    """

    same_seed: bool
    by_budget: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`curves` are those of the common tasks alone, one a run in the order given."""

    names: tuple[str, ...]
    n_common: int
    n_tasks: tuple[int, ...]  # of each run
    curves: tuple[tuple[CurvePoint, ...], ...]
    contrasts: tuple[Contrast, ...]
    noise: Mapping[str, Noise]  # of finished runs with the settings of the first, by name
    unfinished: tuple[str, ...]  # names


def compare_runs(runs: Sequence[Run], seed: int = 0) -> Comparison:
    """Compare runs on their common tasks.

    Raises:
        ValueError: there are none.
    """
    ids = common_tasks([run.name for run in runs], [run.task_set for run in runs], [run.tasks for run in runs])
    kept = [[sample for sample in run.samples if sample.key.task_id in ids] for run in runs]
    rates = [_rates(run, samples, sorted(ids)) for run, samples in zip(runs, kept, strict=True)]
    pairs = [
        (run, budget, own[budget], rates[0][budget])
        for run, own in zip(runs[1:], rates[1:], strict=True)
        for budget in sorted(own.keys() & rates[0].keys())
        if not np.isnan(own[budget] - rates[0][budget]).all()
    ]
    found = [_contrast(run, runs[0], budget, own, other, len(pairs), seed) for run, budget, own, other in pairs]
    adjusted = holm([contrast.p_value for contrast in found])
    return Comparison(
        tuple(run.name for run in runs),
        len(ids),
        tuple(len(run.tasks) for run in runs),
        tuple(_curve(run, samples, seed) for run, samples in zip(runs, kept, strict=True)),
        tuple(replace(contrast, p_holm=p) for contrast, p in zip(found, adjusted, strict=True)),
        {
            run.name: Noise(
                run.seed == runs[0].seed,
                {b: noise_floor(own[b] - rates[0][b]) for b in sorted(own.keys() & rates[0].keys())},
            )
            for run, own in zip(runs[1:], rates[1:], strict=True)
            if run.settings == runs[0].settings and not (run.unfinished or runs[0].unfinished)
        },
        tuple(run.name for run in runs if run.unfinished),
    )


def _curve(run: Run, samples: Sequence[GradedSample], seed: int) -> tuple[CurvePoint, ...]:
    names = {"model": run.model, "task_set": run.task_set, "method": run.method, "seed": seed}
    found = curve(samples, **names) if run.voting is None else voted_curve(samples, run.voting, **names)
    return tuple(found) if run.counted else uncounted(found)


def identity(task: Task) -> str:
    """The same for tasks that are graded alike. A solution, which no verifier reads, makes no other task."""
    read = {name: value for name, value in task.meta.items() if name != "solution"}
    content = json.dumps([task.verifier, task.reference, read], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def common_tasks(names: Sequence[str], sets: Sequence[str], tasks: Sequence[Mapping[str, Task]]) -> set[str]:
    """Ids of the tasks that all runs have, of runs by their names, the names of their task sets, and their tasks.

    Raises:
        ValueError: there are none.
    """
    identities = [{task_id: identity(task) for task_id, task in own.items()} for own in tasks]
    common = set.intersection(*({*one.items()} for one in identities))
    if common:
        return {task_id for task_id, _ in common}
    sizes = ", ".join(f"{name}: {own}, {len(ids):,} tasks" for name, own, ids in zip(names, sets, tasks, strict=True))
    same_ids = set.intersection(*({*one} for one in identities))
    hint = f"; {len(same_ids):,} ids are in all, but stand for different tasks" if same_ids else ""
    raise ValueError(
        f"these runs have no task in common ({sizes}{hint}); compare runs of the same --tasks, --limit and --seed"
    )


def _rates(run: Run, samples: Sequence[GradedSample], ids: Sequence[str]) -> dict[int, np.ndarray]:
    """Budget -> [n_tasks]: share of right samples, or the vote, of each task in `ids`; NaN where it has none."""
    if run.voting is not None:
        votes = voted_rates(samples, run.voting)
        return {run.voting.budget: np.array([votes.get(task_id, np.nan) for task_id in ids])}
    places = {task_id: place for place, task_id in enumerate(ids)}
    by_budget: dict[int, list[GradedSample]] = {}
    for sample in samples:
        if sample.status != MISSING:
            by_budget.setdefault(sample.key.budget, []).append(sample)
    found = {}
    for budget, present in by_budget.items():
        rates = np.full(len(ids), np.nan)
        own = task_rates({budget: present})[:, 0]
        for task_id, rate in zip(sorted({sample.key.task_id for sample in present}), own, strict=True):
            rates[places[task_id]] = rate
        found[budget] = rates
    return found


def _contrast(
    run: Run, reference: Run, budget: int, own: np.ndarray, other: np.ndarray, comparisons: int, seed: int
) -> Contrast:
    gaps = own - other
    both = ~np.isnan(gaps)
    estimate, p_value = difference_interval(gaps), paired_test(gaps, seed=seed)
    return Contrast(
        run.name,
        reference.name,
        budget,
        estimate.n_tasks,
        float(own[both].mean()),
        float(other[both].mean()),
        estimate.value,
        estimate.low,
        estimate.high,
        p_value,
        p_value,
        detectable_difference(gaps, comparisons),
        run.unfinished or reference.unfinished,
    )


def say(comparison: Comparison) -> list[str]:
    """What is and what is not a difference: a sentence or two for each run against the first."""
    return [
        sentence
        for name in comparison.names[1:]
        for sentence in _sentences(name, comparison, [c for c in comparison.contrasts if c.run == name])
    ]


def _sentences(name: str, comparison: Comparison, own: Sequence[Contrast]) -> list[str]:
    reference = comparison.names[0]
    if not own:
        return [f"{name} and {reference} have no budget in common: nothing is paired, only the curves are drawn."]
    if own[0].unfinished:
        late = [one for one in (name, reference) if one in comparison.unfinished]
        who = f"{' and '.join(late)} {'is' if len(late) == 1 else 'are'}"
        parts = [f"{format_budget(c.budget)} ({points(c.delta, c.low, c.high)})" for c in own]
        return [
            f"Nothing is decided between {name} and {reference}: {who} not finished, and the samples that finish "
            f"first are the short ones, which are more often right. So far, {name} against {reference} is at "
            f"{_and(parts)}."
        ]
    shown = [contrast for contrast in own if contrast.is_difference]
    silent = [contrast for contrast in own if not contrast.is_difference]
    said = []
    if shown:
        parts = [
            f"{'more' if c.delta > 0 else 'less'} often right at {format_budget(c.budget)} "
            f"({points(c.delta, c.low, c.high)} points, {said_p(c.p_holm)})"
            for c in shown
        ]
        said.append(f"A difference: {name} is {_and(parts)} than {reference}{_corrected(comparison)}.")
    if silent:
        parts = [f"{format_budget(c.budget)} ({points(c.delta, c.low, c.high)})" for c in silent]
        corrected = "" if shown else _corrected(comparison)
        said.append(
            f"No difference is shown: {name} against {reference} at {_and(parts)}{corrected}. "
            f"With these tasks {_found_from([c.detectable for c in silent])}."
        )
    if (fewest := min(c.n_tasks for c in own)) < comparison.n_common:
        said.append(f"Some tasks have no result in one of the two: as few as {fewest:,} are paired.")
    curves = zip(comparison.names, comparison.curves, strict=True)
    votes = {one: any(point.vote != "none" for point in own_curve) for one, own_curve in curves}
    if votes[name] != votes[reference]:
        voted, single = (name, reference) if votes[name] else (reference, name)
        said.append(f"{voted} is one vote a task, at the tokens of all its samples; {single} is a single sample.")
    if noise := comparison.noise.get(name):
        parts = [f"{100 * floor:.1f} points at {format_budget(budget)}" for budget, floor in noise.by_budget.items()]
        what = "what does not reproduce" if noise.same_seed else "sampling alone"
        seed = "the same seed" if noise.same_seed else "another seed"
        said.append(
            f"{name} is {reference} again with the same settings and {seed}: "
            f"{what} makes a run uncertain by {_and(parts)}."
        )
    return said


def _found_from(detectable: Sequence[float]) -> str:
    """How large a true difference would have been found."""
    known = [100 * size for size in detectable if not math.isnan(size)]
    if not known:
        return "no true difference would be found four times in five, however large: they are too few"
    least, most = f"{min(known):.0f}", f"{max(known):.0f}"
    size = most if least == most else f"{least} to {most}"
    some = "" if len(known) == len(detectable) else ", at some budgets none: too few tasks have a result there"
    return f"a true difference of {size} points would be found four times in five{some}"


def _corrected(comparison: Comparison) -> str:
    count = len(comparison.contrasts)
    return f", after Holm's correction for {count} comparisons" if count > 1 else ""


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
