"""Was the budget honoured? Counted again on the ids of a finished row, one by one and apart from the controller."""

from __future__ import annotations

from reasoning.budgets import format_budget
from reasoning.prompts import Ids, ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason, Generation


def check(generation: Generation, markers: ThinkMarkers, starts_open: bool, *, max_answer_tokens: int) -> str | None:
    """What is wrong with a generation, or None.

    Wrong is: more thinking than the budget; a cut anywhere but at the budget (`NO_LIMIT` is cut by the context); an
    answer that was forced without a cut or without an injected closing marker; spans or an answer that are not where
    the markers are; an answer of more than `max_answer_tokens`, injected ones aside. A sample that the engine failed
    to produce has nothing to check.
    """
    budget = generation.key.budget
    name = f"task {generation.key.task_id}, sample {generation.key.sample}, budget {format_budget(budget)}"
    if generation.finish_reason is FinishReason.ERROR:
        return None
    if generation.forced and not generation.bound:
        return f"{name}: its answer was forced, but its thinking was not cut"
    if generation.forced and not _closes(generation, markers):
        return f"{name}: its answer was forced, but no closing marker was injected for it"
    thinking, answer_start = _recount(generation, markers, starts_open)
    if len(thinking) > budget:
        return f"{name}: {len(thinking):,} thinking tokens, {len(thinking) - budget:,} over the budget"
    if generation.bound and budget != NO_LIMIT and len(thinking) != budget:
        return f"{name}: cut after {len(thinking):,} thinking tokens, {budget - len(thinking):,} short of the budget"
    if thinking != [index for start, end in generation.thinking for index in range(start, end)]:
        return f"{name}: its thinking spans say {generation.thinking_tokens:,} tokens, its ids say {len(thinking):,}"
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


def _recount(generation: Generation, markers: ThinkMarkers, starts_open: bool) -> tuple[list[int], int | None]:
    """Indices of the thinking tokens, and where the answer begins (None: the thinking is open at the end)."""
    ids = generation.completion_ids
    # The id that ends the text is none of the thinking that it interrupts.
    end = len(ids) - (generation.finish_reason is FinishReason.UNCLOSED)
    closing, closing_end = generation.injected[-1] if generation.forced else (end, end)
    thinking: list[int] = []
    inside, answer_start, index = starts_open, 0, 0
    while index < end:
        if index == closing:  # its words before the marker are no thinking
            index += _find(ids[closing:closing_end], markers.close_ids) + len(markers.close_ids)
            inside, answer_start = False, index
            continue
        marker = markers.close_ids if inside else markers.open_ids
        limit = closing if index < closing else end
        if ids[index] == marker[0] and ids[index : min(index + len(marker), limit)] == marker:
            index += len(marker)
            inside, answer_start = not inside, index
            continue
        if inside:
            thinking.append(index)
        index += 1
    return thinking, None if inside else answer_start


def _find(ids: Ids, marker: Ids) -> int:
    return next((start for start in range(len(ids)) if ids[start : start + len(marker)] == marker), len(ids))
