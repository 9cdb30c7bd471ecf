"""How many tokens and steps samples may need, and how much thinking a context has room for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reasoning.budgets import BudgetError, format_budget
from reasoning.prompts import Ids, Rendered, ThinkMarkers
from reasoning.types import NO_LIMIT


def trace_tokens(thinking: int, starts_open: bool, markers: ThinkMarkers, max_answer_tokens: int) -> int:
    """Tokens within which a trace has surely ended, or shown more than `thinking` thinking tokens, or reached its cap.

    Until then it holds at most: the first section's markers, all of that thinking, an answer short of one token, and a
    marker short of one id that may still turn out to be none.
    """
    opening = 0 if starts_open else len(markers.open_ids)
    lookahead = max(len(markers.open_ids), len(markers.close_ids)) - 1
    return opening + thinking + len(markers.close_ids) + max_answer_tokens + lookahead


def thinking_room(
    max_model_len: int, rendered: Rendered, markers: ThinkMarkers, closing_ids: Ids, max_answer_tokens: int
) -> int:
    """Thinking tokens that fit beside the prompt, the markers, a closing and a whole answer. May be negative."""
    beside = trace_tokens(0, rendered.starts_open, markers, max_answer_tokens)
    words = max(len(closing_ids) - len(markers.close_ids), 0)
    return max_model_len - len(rendered.prompt_ids) - beside - words


def check_room(budgets: Sequence[int], room: int, max_model_len: int) -> None:
    """Refuse budgets that a context of `max_model_len` tokens cannot honour; `none` needs room for one token.

    Raises:
        BudgetError: with the largest budget that fits.
    """
    too_large = [budget for budget in budgets if (1 if budget == NO_LIMIT else budget) > room]
    if not too_large:
        return
    remedy = f"write at most {format_budget(room)}, or none" if room > 0 else "lower --max-answer-tokens"
    raise BudgetError(
        f"a budget of {format_budget(max(too_large))} does not fit: beside prompt, closing and answer, the context of "
        f"{max_model_len:,} tokens has room for {max(room, 0):,} thinking tokens; {remedy}"
    )


def most_steps(lengths: Sequence[int], forks: Sequence[int], places: int) -> int:
    """Steps within which requests of at most `lengths` tokens have ended, and `forks` that come of them on the way.

    Each running request gets a token a step, at most `places` run at once, and a fork ends within the tokens that its
    trace had left. Where requests have to queue, that is at most the longest one and a `places`-th of all other
    tokens: the bound of R. L. Graham for list scheduling (1966).
    """
    longest = max(lengths, default=0)
    if len(lengths) + len(forks) <= places:
        return longest
    return longest + math.ceil((sum(lengths) + sum(forks) - longest) / places)
