"""Budgets as people write them: `1k,10k,none`."""

from __future__ import annotations

import re

from reasoning.types import NO_LIMIT

_COUNT = re.compile(r"(0|[1-9]\d*(?:_\d+)*)(k?)", re.ASCII | re.IGNORECASE)


class BudgetError(ValueError):
    """A budget that cannot be read or does not fit; the message is ready to show."""


def parse_budget(text: str) -> int:
    """Thinking tokens of one budget: `64`, `10_000`, `10k` (10,000) or `none` (`NO_LIMIT`).

    Raises:
        BudgetError: the text is none of these.
    """
    text = text.strip()
    if text.lower() == "none":
        return NO_LIMIT
    match = _COUNT.fullmatch(text)
    if match is None:
        raise BudgetError(f"'{text}' is not a token count; write 10k, 10_000 or none")
    tokens = int(match[1]) * (1000 if match[2] else 1)
    if tokens >= NO_LIMIT:
        raise BudgetError(f"'{text}' is more than any context holds; write none for no limit")
    return tokens


def parse_budgets(text: str) -> tuple[int, ...]:
    """The budgets of a comma-separated list, ascending and each once.

    Raises:
        BudgetError: an entry is not a budget.
    """
    return tuple(sorted({parse_budget(part) for part in text.split(",")}))


def json_budget(budget: int) -> int | None:
    """The budget as files have it: null where there is no limit."""
    return None if budget == NO_LIMIT else budget


def format_budget(budget: int) -> str:
    """The shortest text that `parse_budget` reads as `budget`: `1k`, `64`, `none`."""
    if budget == NO_LIMIT:
        return "none"
    if budget and budget % 1000 == 0:
        return f"{budget // 1000}k"
    return str(budget)
