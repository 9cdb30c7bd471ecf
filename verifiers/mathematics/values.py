"""What an answer can be: a number, a list, a point, a region of numbers, a matrix, an equation, a ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from verifiers.mathematics.nodes import Node
from verifiers.mathematics.units import Unit

Same = Callable[[Node, Node], bool]
"""Whether two scalar expressions are equal."""
INFINITY = Node("const", (), "inf")
MINUS_INFINITY = Node("neg", (INFINITY,))


@dataclass(frozen=True, slots=True)
class Nothing:
    """An answer that matches nothing; `why` is a short stable name."""

    why: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One expression, perhaps with a unit. `name` is the variable or function that it is the value of."""

    node: Node
    unit: Unit | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Based:
    """A numeral in a base."""

    digits: str
    base: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Many:
    """Several values: a `list` (unordered, with repeats), a `set` (unordered, without) or a `tuple` (ordered)."""

    kind: str
    items: tuple[Value, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """An interval of a region. A point is closed on both sides with equal ends."""

    low: Node
    low_closed: bool
    high: Node
    high_closed: bool


@dataclass(frozen=True, slots=True)
class Region:
    """A union of disjoint intervals in ascending order."""

    parts: tuple[Part, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix, row by row."""

    columns: int
    entries: tuple[Node, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Equation:
    """`node` = 0, < 0 ("<") or <= 0 ("le"). `solved`: one side is a lone variable."""

    node: Node
    op: str
    solved: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class Ratio:
    parts: tuple[Node, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A set such as the integers that is no region."""

    node: Node
    name: str = ""


Value = Nothing | Scalar | Based | Many | Region | Grid | Equation | Ratio | Field
REALS = Region((Part(MINUS_INFINITY, False, INFINITY, False),))
