"""Samples to read: a few of every outcome at every budget, the same ones whatever the order they are offered in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from eval.curves import GradedSample
from eval.outcomes import Outcome, outcome_of
from reasoning.types import Generation, Task
from verifiers.base import Verdict

EACH = 3
"""Samples of one outcome at one budget."""


@dataclass(frozen=True, slots=True)
class Example:
    """One sample as a person reads it."""

    budget: int
    outcome: Outcome
    task_id: str
    sample: int
    prompt: str
    text: str
    extracted: str | None
    reference: str
    why: str  # what decided the verdict
    thinking_tokens: int
    answer_tokens: int
    finish_reason: str
    bound: bool


class Examples:
    """Keeps the samples whose hashes are smallest. A sample has one hash at all budgets, so that it is met again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Outcome], dict[int, Example]] = {}

    def offer(self, graded: GradedSample, generation: Generation, task: Task, verdict: Verdict | None) -> None:
        """A sample that is offered again, as one that failed twice, takes the place of the former."""
        kind, rank = outcome_of(graded), _rank(task.id, graded.key.sample)
        kept = self._kept.setdefault((graded.key.budget, kind), {})
        if rank not in kept and len(kept) == EACH:
            if rank > max(kept):
                return
            del kept[max(kept)]
        kept[rank] = _example(kind, graded, generation, task, verdict)

    def __iter__(self) -> Iterator[Example]:
        """By budget, then by outcome in the order of `Outcome`."""
        order = list(Outcome)
        for _, kept in sorted(self._kept.items(), key=lambda item: (item[0][0], order.index(item[0][1]))):
            yield from (kept[rank] for rank in sorted(kept))


def _rank(task_id: str, sample: int) -> int:
    digest = hashlib.blake2b(f"{sample}/{task_id}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest)


def _example(
    kind: Outcome, graded: GradedSample, generation: Generation, task: Task, verdict: Verdict | None
) -> Example:
    return Example(
        budget=graded.key.budget,
        outcome=kind,
        task_id=task.id,
        sample=graded.key.sample,
        prompt="\n\n".join(str(message["content"]) for message in task.prompt),
        text=generation.error or generation.text,
        extracted=graded.extracted,
        reference=task.reference,
        why="" if verdict is None else ": ".join(filter(None, (verdict.rule, verdict.detail))),
        thinking_tokens=graded.thinking_tokens,
        answer_tokens=graded.answer_tokens,
        finish_reason=graded.finish_reason.value,
        bound=graded.bound,
    )
