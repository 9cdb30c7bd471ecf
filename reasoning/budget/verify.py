"""Was the budget honoured? Counted again on the ids of a finished row, apart from the controller."""

from __future__ import annotations

from collections.abc import Iterable

from reasoning.budgets import format_budget
from reasoning.prompts import Ids, ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason, Generation, Span


def check(generation: Generation, markers: ThinkMarkers, starts_open: bool, *, max_answer_tokens: int) -> str | None:
    """What is wrong with a generation, or None.

    Wrong is: more thinking than the budget; a cut anywhere but at the budget (`NO_LIMIT` is cut by the context, and a
    policy may stop before); an answer that was forced without a cut or without an injected closing marker; spans or an
    answer that are not where the markers are; an answer of more than `max_answer_tokens`, injected ones aside. A sample
    that the engine failed to produce has nothing to check.
    """
    budget = generation.key.budget
    name = f"task {generation.key.task_id}, sample {generation.key.sample}, budget {format_budget(budget)}"
    if generation.finish_reason is FinishReason.ERROR:
        return None
    if generation.forced and not generation.bound:
        return f"{name}: its answer was forced, but its thinking was not cut"
    if generation.forced and not _closes(generation, markers):
        return f"{name}: its answer was forced, but no closing marker was injected for it"
    runs, answer_start = _recount(generation, markers, starts_open)
    thinking = sum(end - start for start, end in runs)
    if thinking > budget:
        return f"{name}: {thinking:,} thinking tokens, {thinking - budget:,} over the budget"
    if generation.bound and not generation.stopped and budget != NO_LIMIT and thinking != budget:
        return f"{name}: cut after {thinking:,} thinking tokens, {budget - thinking:,} short of the budget"
    if runs != _joined(generation.thinking):
        return f"{name}: its thinking spans say {generation.thinking_tokens:,} tokens, its ids say {thinking:,}"
    if answer_start != generation.answer_start:
        return f"{name}: its answer begins at {generation.answer_start}, its ids say {answer_start}"
    if (written := _written(generation)) > max_answer_tokens:
        return f"{name}: an answer of {written:,} tokens, {written - max_answer_tokens:,} over the cap"
    return None


def _closes(generation: Generation, markers: ThinkMarkers) -> bool:
    """Whether the span that was injected last holds the closing marker."""
    start, end = generation.injected[-1] if generation.injected else (0, 0)
    closing = generation.completion_ids[start:end]
    return _find(closing, markers.close_ids) < len(closing)


def _written(generation: Generation) -> int:
    """Answer tokens that the model wrote: what the closing has behind its marker was put into the answer's mouth."""
    if not generation.forced:
        return generation.answer_tokens
    return min(generation.answer_tokens, len(generation.completion_ids) - generation.injected[-1][1])


def _recount(generation: Generation, markers: ThinkMarkers, starts_open: bool) -> tuple[list[Span], int | None]:
    """The runs of thinking tokens, and where the answer begins (None: the thinking is open at the end)."""
    ids = generation.completion_ids
    # The id that ends the text is none of the thinking that it interrupts.
    end = len(ids) - (generation.finish_reason is FinishReason.UNCLOSED)
    closing, closing_end = generation.injected[-1] if generation.forced else (end, end)
    runs: list[Span] = []
    inside, answer_start, index = starts_open, 0, 0
    while index < end:
        if index == closing:  # its words before the marker are no thinking
            index += _find(ids[closing:closing_end], markers.close_ids) + len(markers.close_ids)
            inside, answer_start = False, index
            continue
        marker = markers.close_ids if inside else markers.open_ids
        limit = closing if index < closing else end
        at = index + _find(ids[index:limit], marker)
        if inside and at > index:
            runs.append((index, at))
        index = at
        if at < limit:
            index += len(marker)
            inside, answer_start = not inside, index
    return runs, None if inside else answer_start


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The same indices as runs: without empty spans, those that touch as one."""
    runs: list[Span] = []
    for start, end in spans:
        if start < end and runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        elif start < end:
            runs.append((start, end))
    return runs


def _find(ids: Ids, marker: Ids) -> int:
    """Where the marker begins, or the number of ids where it does not occur."""
    start = 0
    while True:
        try:
            start = ids.index(marker[0], start)
        except ValueError:
            return len(ids)
        if ids[start : start + len(marker)] == marker:
            return start
        start += 1
