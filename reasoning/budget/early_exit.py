"""Stops samples while they are sampled: the same rules, asked the same questions, as a replay of a stored run.

A rule is asked at one budget after the other. Forced answers do not finish in that order, so the rows of a sample are
held back until it is known what the rule makes of them: all or none of them reach the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from reasoning.budget.stopping import Probe, StopRule
from reasoning.types import Generation

Label = Callable[[str, str], str | None]
"""Which answer a text gives to the task of an id; None: none can be read."""


@dataclass(slots=True)
class _Held:
    """The rows of one sample that are there so far."""

    budgets: tuple[int, ...]
    rows: dict[int, Generation] = field(default_factory=dict)
    judged: list[Generation] = field(default_factory=list)  # at budgets that the rule has been asked at, ascending
    probes: list[Probe] = field(default_factory=list)
    asked: int = 0  # tokens of the probes


class EarlyExit:
    """Asks `rule` at every budget above 0 at which thinking was cut. `label` tells it which answers are the same."""

    def __init__(self, rule: StopRule, label: Label) -> None:
        self._rule = rule
        self._label = label
        self._held: dict[tuple[str, int], _Held] = {}

    def expect(self, task_id: str, sample: int, budgets: Sequence[int]) -> None:
        """A sample begins that will have a row at each of `budgets`, ascending."""
        self._held[task_id, sample] = _Held(tuple(budgets))

    def add(self, rows: Sequence[Generation], decoded: int, cached: int) -> tuple[list[Generation], bool]:
        """Take rows of one sample that finished.

        Returns the rows that are final, and whether the sample is to be stopped. `decoded` and `cached` are what its
        trace has cost so far, to be booked if it is stopped before its own row is there.
        """
        key = rows[0].key.task_id, rows[0].key.sample
        held = self._held[key]
        held.rows |= {row.key.budget: row for row in rows}
        while len(held.judged) < len(held.budgets):
            row = held.rows.get(held.budgets[len(held.judged)])
            if row is None:
                return [], False
            held.judged.append(replace(row, probe_tokens=held.asked))
            # Thinking that ended by itself answers for all larger budgets, whose rows came with this one.
            if row.bound and row.key.budget > 0 and row.key.budget < held.budgets[-1] and self._stops(held, row):
                del self._held[key]
                return _stopped(held, decoded, cached), True
        del self._held[key]
        return held.judged, False

    def _stops(self, held: _Held, row: Generation) -> bool:
        held.probes.append(Probe(self._label(row.key.task_id, row.answer_text), row.answer_confidence))
        if self._rule(held.probes):
            return True
        held.asked += row.answer_tokens
        return False


def _stopped(held: _Held, decoded: int, cached: int) -> list[Generation]:
    """The rows of a sample that was stopped at the last one judged: its answer is that of all larger budgets."""
    *below, last = held.judged
    budgets = [budget for budget in held.budgets if budget >= last.key.budget]
    dropped = [row for budget, row in held.rows.items() if budget > last.key.budget]
    if held.budgets[-1] not in held.rows:  # else the trace is booked there
        decoded, cached = decoded + last.decoded_tokens, cached + last.cached_tokens
    else:
        decoded, cached = last.decoded_tokens, last.cached_tokens
    decoded += sum(row.decoded_tokens for row in dropped)
    cached += sum(row.cached_tokens for row in dropped)
    shared = replace(last, stopped=True, decoded_tokens=0, cached_tokens=0)
    rows = [replace(shared, key=replace(last.key, budget=budget)) for budget in budgets]
    return [*below, *rows[:-1], replace(rows[-1], decoded_tokens=decoded, cached_tokens=cached)]
