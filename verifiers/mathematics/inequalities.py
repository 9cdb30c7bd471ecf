"""Inequalities in one variable that a reference leaves unsolved, such as |x| < 3, as the numbers that solve them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from verifiers.mathematics.exact import exact_quotient
from verifiers.mathematics.nodes import Node, number, symbols
from verifiers.mathematics.polynomials import ONE, UNITY, Undecided, rational
from verifiers.mathematics.regions import Regions
from verifiers.mathematics.values import INFINITY, MINUS_INFINITY, Equation, Many, Part, Region, Same, Value

_MOST = 4
"""Inequalities that may hold together."""


def solved(value: Value, same: Same) -> Region | None:
    """The region of linear inequalities that hold together, absolute values included; None for everything else."""
    items = value.items if isinstance(value, Many) and value.kind == "list" else (value,)
    if not items or len(items) > _MOST:
        return None
    regions = [_solved(item) for item in items if isinstance(item, Equation) and item.op in ("<", "le")]
    if len(regions) != len(items) or len({name for item in items for name in symbols(item.node)}) != 1:  # ty: ignore
        return None
    kept = [region for region in regions if region is not None]
    if len(kept) != len(items):
        return None
    result = kept[0] if len(kept) == 1 else Regions(same).intersection(kept)
    return replace(result, name=next(iter(symbols(items[0].node)))) if isinstance(result, Region) else None  # ty: ignore


def _solved(item: Equation) -> Region | None:
    """left < right, which is stored as left - right < 0."""
    node, closed = item.node, item.op == "le"
    if node.op != "add" or len(node.args) != 2:
        return None
    left, right = node.args[0], node.args[1].args[0] if node.args[1].op == "neg" else Node("neg", (node.args[1],))
    try:
        if left.op == "fn" and left.value == "abs":
            return _within(left.args[0], right, closed)
        if right.op == "fn" and right.value == "abs":
            return _outside(right.args[0], left, closed)
        line = _line(node)
    except Undecided:
        return None
    if line is None:
        return None
    slope, offset = line
    end = number(-offset / slope)
    part = Part(MINUS_INFINITY, False, end, closed) if slope > 0 else Part(end, closed, INFINITY, False)
    return Region((part,))


def _within(inner: Node, bound: Node, closed: bool) -> Region | None:
    """|inner| < bound."""
    ends = _ends(inner, bound)
    return None if ends is None else Region((Part(number(ends[0]), closed, number(ends[1]), closed),))


def _outside(inner: Node, bound: Node, closed: bool) -> Region | None:
    """bound < |inner|."""
    ends = _ends(inner, bound)
    if ends is None:
        return None
    low, high = map(number, ends)
    return Region((Part(MINUS_INFINITY, False, low, closed), Part(high, closed, INFINITY, False)))


def _ends(inner: Node, bound: Node) -> tuple[Fraction, Fraction] | None:
    """Where |inner| is `bound`, in ascending order."""
    line, size = _line(inner), rational(exact_quotient(bound))
    if line is None or size is None or size <= 0:
        return None
    slope, offset = line
    first, second = sorted(((size - offset) / slope, (-size - offset) / slope))
    return first, second


def _line(node: Node) -> tuple[Fraction, Fraction] | None:
    """Slope and value at zero of an expression that is linear in its only variable."""
    names = symbols(node)
    top, bottom = exact_quotient(node)
    if len(names) != 1 or bottom != UNITY:
        return None
    variable = frozenset({(next(iter(names)), Fraction(1))})
    if variable not in top or not top.keys() <= {variable, ONE}:
        return None
    return top[variable], top.get(ONE, Fraction(0))
