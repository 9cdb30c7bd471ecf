"""Numbers as reports and the console write them: one way for each kind."""

from __future__ import annotations

import math

NONE = "–"
"""Stands where there is no number."""


def percent(share: float) -> str:
    """`41.7 %`."""
    return NONE if math.isnan(share) else f"{100 * share:.1f} %"


def points(difference: float, low: float, high: float) -> str:
    """A difference of two rates with its interval, in points: `+4.0 [-1.2, +9.3]`."""
    return "{:+z.1f} [{:+z.1f}, {:+z.1f}]".format(*(100 * value for value in (difference, low, high)))


def p_value(p: float) -> str:
    """`0.012`, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def said_p(p: float) -> str:
    """The same in a sentence: `p = 0.012`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
