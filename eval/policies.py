"""`--policy name:args`: what a way of spending tokens would have brought, replayed on stored samples.

A policy sees the answers of the samples, never whether they are right. Tasks and samples that lack something that it
needs (a budget that the engine failed on) are left out, for the policy as for what it is compared with, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.allocation import choose, describe_cells
from eval.curves import GradedSample
from eval.replay import Ballot, Replayed, draw, filter_traces, majority, replay_thinking
from eval.savings import Outcomes, PolicyResult, compare
from eval.statistics import Floats
from eval.stored import Rows, Stored, whole_samples
from eval.voting import MAX_VOTES, best_of_k, labelled_majority_at_k
from reasoning.budget.drawing import AdaptiveShare, BetaStop, DrawRule
from reasoning.budget.policies import ADAPTIVE, BINS, FILTER, TOKENS, read_tokens
from reasoning.budget.stopping import RULES, Argument, StopRule, at_least, read_call, stop_rule
from reasoning.budgets import format_budget
from reasoning.config import ConfigError
from verifiers.base import Status


def _budget(text: str) -> int | None:
    """None: the largest of the run."""
    return None if text == "largest" else read_tokens(text)


def _votes(text: str) -> int | None:
    """None: all samples of a task."""
    return None if text == "all" else at_least(1)(text)


_BUDGET = Argument("budget", _budget, "largest")

POLICIES: dict[str, tuple[Argument, ...]] = {
    "never": (),
    "cap": (Argument("budget", read_tokens),),
    **RULES,
    "vote": (Argument("k", _votes, "all"), _BUDGET),
    **{name: (*known, _BUDGET) for name, known in ADAPTIVE.items()},
    "best": (Argument("k", _votes, "all"), _BUDGET),
    **FILTER,
    "split": (TOKENS,),
    "difficulty": (TOKENS, BINS),
}
"""Every policy with its arguments; docs/policies.md says what they do."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as it was asked for."""

    text: str
    name: str
    arguments: Mapping[str, Any]


def parse_policy(text: str) -> Policy:
    """Read `name:args`.

    Raises:
        ConfigError: there is no such policy, or its arguments cannot be used.
    """
    if text.partition(":")[0] == "wait":
        raise ConfigError("wait adds thinking that no stored trace has: run reasoning.eval with --extension.waits N")
    return Policy(text, *read_call(text, POLICIES))


def apply_policies(policies: Sequence[Policy], samples: Sequence[GradedSample], seed: int = 0) -> list[PolicyResult]:
    """Replay each policy on the samples of a run.

    Raises:
        ConfigError: a policy needs something that the run does not have.
    """
    stored = whole_samples(samples)
    if policies and not stored.tasks:
        raise ConfigError("no policy can be replayed: the run has no sample that is there at every budget above 0")
    return [compare(policy.text, _replay(policy, stored), seed=seed) for policy in policies]


def _replay(policy: Policy, stored: Stored) -> Outcomes:
    values = dict(policy.arguments)
    if policy.name in ("deer", "deepconf", "best"):
        _check_confidence(policy, stored)
    if "budget" in values:
        values["budget"] = _known_budget(policy, values["budget"], stored)
    if values.get("k"):
        stored = _with_samples(policy, values["k"], stored)
    elif policy.name == "deepconf":  # one at least that the warm-up can stop
        stored = _with_samples(policy, values["warmup"] + 1, stored)
    elif policy.name == "difficulty":  # some to tell how hard a task is, the others to judge on
        stored = _with_samples(policy, 2, stored)
    match policy.name:
        case "never":
            return _thinking(stored, lambda rows: replay_thinking(rows, None))
        case "cap":
            column = stored.budgets.index(values["budget"])
            return _thinking(stored, lambda rows: replay_thinking(rows[: column + 1], None))
        case "asc":
            return _drawing(stored, AdaptiveShare(values["share"]), values["budget"])
        case "beta":
            return _drawing(stored, BetaStop(values["p"]), values["budget"])
        case "vote":
            return _drawing(stored, _first(values["k"]) if values["k"] else None, values["budget"])
        case "best":
            return _picking(stored, values["k"], values["budget"])
        case "deepconf":
            return _filtering(stored, **values)
        case "split" | "difficulty":
            return _allocating(policy, stored)
        case _:
            rule: StopRule = stop_rule(policy.text)
            return _thinking(stored, lambda rows: replay_thinking(rows, rule))


def _known_budget(policy: Policy, budget: int | None, stored: Stored) -> int:
    if budget is None:
        return stored.budgets[-1]
    if budget not in stored.budgets:
        known = ", ".join(map(format_budget, stored.budgets))
        raise ConfigError(f"{policy.text}: the run has no budget {format_budget(budget)}; it has {known}")
    return budget


def _with_samples(policy: Policy, least: int, stored: Stored) -> Stored:
    """The tasks with `least` samples; the samples of the others are left out."""
    kept = {name: samples for name, samples in stored.tasks.items() if len(samples) >= least}
    if not kept:
        most = max(map(len, stored.tasks.values()))
        raise ConfigError(f"{policy.text}: no task has {least:,} whole samples to draw from; the most is {most:,}")
    dropped = sum(map(len, stored.tasks.values())) - sum(map(len, kept.values()))
    return Stored(kept, stored.budgets, stored.left_out + dropped)


def _check_confidence(policy: Policy, stored: Stored) -> None:
    what = "thinking_confidence" if policy.name == "deepconf" else "answer_confidence"
    rows = [row for samples in stored.tasks.values() for sample in samples for row in sample]
    if rows and all(getattr(row, what) is None for row in rows):
        raise ConfigError(
            f"{policy.text} needs the log-probabilities of the tokens, which this run did not store; "
            "run reasoning.eval again with --logprobs true"
        )


def _first(count: int) -> DrawRule:
    return lambda labels: len(labels) >= count


def _thinking(stored: Stored, replay: Callable[[Rows], Replayed]) -> Outcomes:
    """A rule for each sample by itself, against the hard caps of the same samples."""
    replayed = [[replay(rows) for rows in samples] for samples in stored.tasks.values()]
    stops = Counter(format_budget(one.stop) for task in replayed for one in task)
    plain = [stored.at(budget) for budget in stored.budgets]
    return Outcomes(
        _means([[one.right for one in task] for task in replayed]),
        _means([[one.tokens for one in task] for task in replayed]),
        _means([[one.probe_tokens for one in task] for task in replayed]),
        _table([_means([_right(task) for task in at]) for at in plain], len(replayed)),
        _table([_means([[row.spent_tokens for row in task] for task in at]) for at in plain], len(replayed)),
        "hard caps",
        {format_budget(b): stops[format_budget(b)] / stops.total() for b in stored.budgets if stops.total()},
        stops.total(),
        stored.left_out,
    )


def _drawing(stored: Stored, rule: DrawRule | None, budget: int) -> Outcomes:
    """A rule for how many samples vote, against majorities of 1, 2, 3 ... samples at the same budget."""
    tasks = stored.at(budget)
    return _voted(stored, tasks, [majority(draw(task, rule)) for task in tasks])


def _picking(stored: Stored, k: int | None, budget: int) -> Outcomes:
    """The sample with the surest answer of `k`, in expectation over all choices of them."""
    tasks = stored.at(budget)
    ks = [k or len(task) for task in tasks]
    picked = [
        best_of_k([row.answer_confidence or 0.0 for row in task], _right(task), own)
        for task, own in zip(tasks, ks, strict=True)
    ]
    means = _means([[row.spent_tokens for row in task] for task in tasks])
    accuracy, tokens = _majorities(tasks)
    stops = Counter(ks)
    return Outcomes(
        np.array(picked),
        means * ks,
        np.zeros(len(tasks)),
        accuracy,
        tokens,
        "majority of k",
        {str(count): stops[count] / len(tasks) for count in sorted(stops)},
        sum(map(len, tasks)),
        stored.left_out,
    )


def _filtering(stored: Stored, keep: float, warmup: int) -> Outcomes:
    """Traces that lose confidence are stopped and do not vote, the others vote by their confidence."""
    ballots = [filter_traces(samples, keep, warmup) for samples in stored.tasks.values()]
    return _voted(stored, stored.at(stored.budgets[-1]), ballots)


def _voted(stored: Stored, tasks: Sequence[Rows], ballots: Sequence[Ballot]) -> Outcomes:
    stops = Counter(len(ballot.tokens) for ballot in ballots)
    return Outcomes(
        np.array([ballot.right for ballot in ballots], dtype=float),
        np.array([sum(ballot.tokens) for ballot in ballots], dtype=float),
        np.zeros(len(tasks)),
        *_majorities(tasks),
        "majority of k",
        {str(count): stops[count] / len(tasks) for count in sorted(stops)},
        sum(map(len, tasks)),
        stored.left_out,
    )


def _majorities(tasks: Sequence[Sequence[GradedSample]]) -> tuple[Floats, Floats]:
    """[n_tasks, k]: accuracy and tokens of a majority of 1, 2, 3 ... samples of each task, or of all that it has."""
    counts = np.array([len(task) for task in tasks], dtype=int)
    ks = range(1, min(int(counts.max(initial=0)), MAX_VOTES) + 1)
    labels = [([row.label for row in task], _right(task)) for task in tasks]
    means = _means([[row.spent_tokens for row in task] for task in tasks])
    accuracy = [np.array([labelled_majority_at_k(*one, min(k, len(one[1]))) for one in labels]) for k in ks]
    return _table(accuracy, len(tasks)), _table([np.minimum(k, counts) * means for k in ks], len(tasks))


def _allocating(policy: Policy, stored: Stored) -> Outcomes:
    """A budget and a number of votes for each group of tasks, against one sample at each budget, then majorities.

    What is chosen may be a single sample at a smaller budget, so that majorities alone would flatter it.
    """
    try:
        found = choose(stored, **policy.arguments)
    except ValueError as error:
        raise ConfigError(f"{policy.text}: {error}") from None
    places = np.arange(len(found.judged)), found.cells
    single = [found.grid.cells.index((budget, 1)) for budget in stored.budgets[:-1]]
    accuracy, tokens = _majorities([task[stored.budgets[-1]] for task in found.judged])
    return Outcomes(
        found.grid.majority[places],
        found.grid.tokens[places],
        np.zeros(len(found.judged)),
        np.column_stack([found.grid.majority[:, single], accuracy]),
        np.column_stack([found.grid.tokens[:, single], tokens]),
        "hard caps, then majority of k",
        {},
        sum(len(task[stored.budgets[-1]]) for task in found.judged),
        stored.left_out,
        describe_cells(found.grid, found.chosen),
    )


def _right(rows: Sequence[GradedSample]) -> list[bool]:
    return [row.status == Status.CORRECT for row in rows]


def _means(values: Sequence[Sequence[float]]) -> Floats:
    return np.array([sum(task) / len(task) for task in values], dtype=float)


def _table(columns: Sequence[Floats], n_tasks: int) -> Floats:
    return np.stack(columns, axis=1) if columns else np.empty((n_tasks, 0))
