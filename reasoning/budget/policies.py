"""The policies that a run can be sampled under, by name: some stop a sample, others draw the samples of a task."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from reasoning.budget.stopping import RULES, Argument, at_least, probability, read_call, usage
from reasoning.budgets import BudgetError, parse_budget
from reasoning.config import ConfigError


def read_tokens(text: str) -> int:
    try:
        return parse_budget(text)
    except BudgetError as error:
        raise ValueError(f"a number of tokens ({error})") from None


TOKENS = Argument("tokens", read_tokens)
BINS = Argument("bins", at_least(2), "3")
_FROM = Argument("from", str)

ADAPTIVE: dict[str, tuple[Argument, ...]] = {
    "asc": (Argument("share", probability, "0.75"),),
    "beta": (Argument("p", probability, "0.95"),),
}
"""Policies that draw samples of a task until its answer is clear."""

FILTER: dict[str, tuple[Argument, ...]] = {
    "deepconf": (Argument("keep", probability), Argument("warmup", at_least(2), "4"))
}

ALLOCATION: dict[str, tuple[Argument, ...]] = {"split": (TOKENS, _FROM), "difficulty": (TOKENS, BINS, _FROM)}
"""Policies that choose, from a stored run, a budget and a number of samples for each task."""

DRAWING = ADAPTIVE | FILTER | ALLOCATION
"""Policies that decide which samples of a task to draw. A run under one has one result a task: its vote."""

ONLINE = RULES | DRAWING

REPLAYED = ("never", "cap", "vote", "best")
"""Policies that are replayed only: a run cannot be sampled under them, or needs no policy for it."""


def read_online(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a policy to sample under.

    Raises:
        ConfigError: there is none; the message says what to write.
    """
    name = text.partition(":")[0]
    if name in REPLAYED or not get_close_matches(name, ONLINE):
        known = ", ".join(usage(*one) for one in ONLINE.items())
        raise ConfigError(
            f"no run can be sampled under the policy '{name}'; there are {known}. "
            f"Others are replayed on a stored run: reasoning.report RUN --policy {text}"
        )
    return read_call(text, ONLINE)


def draws_samples(text: str | None) -> bool:
    """Whether a policy decides which samples of a task to draw."""
    return text is not None and text.partition(":")[0] in DRAWING
