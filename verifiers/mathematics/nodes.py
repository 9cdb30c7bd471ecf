"""The tree of a mathematical expression, and the numbers at its leaves.

A node has an operation, its arguments, and a value where the arguments do not say all:

    num (Numeral)   based ((digits, base))   sym (name)   const ("pi", "e", "i", "inf")
    add   mul   div   pow   neg   pm   mp   fact   fact2   fn (name)   call (name)   unit (Unit)   ratio
    list (separator)   set   tuple   interval ((left closed, right closed))   matrix (columns)
    rel (operators)   builder   cup   cap   minus   field (name)   empty   unevaluated
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple


def names(text: str) -> frozenset[str]:
    """The words of a text as a set, for tables."""
    return frozenset(text.split())


class Numeral(NamedTuple):
    """An exact value as written. `decimals` is None unless written as a decimal, and negative where its last digit
    stands for tens or more (1.5e3); `significant` counts its digits."""

    value: Fraction
    decimals: int | None = None
    significant: int = 0


class Node(NamedTuple):
    """One operation of an expression."""

    op: str
    args: tuple[Node, ...] = ()
    value: Any = None


def number(value: int | Fraction) -> Node:
    return Node("num", (), Numeral(Fraction(value)))


def negative(node: Node) -> Node:
    return node.args[0] if node.op == "neg" else Node("neg", (node,))


def product(*factors: Node) -> Node:
    return factors[0] if len(factors) == 1 else Node("mul", factors)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(current.args)


def symbols(node: Node) -> frozenset[str]:
    """The names of the variables in an expression."""
    return frozenset(below.value for below in walk(node) if below.op == "sym")


def has(node: Node, *ops: str) -> bool:
    return any(below.op in ops for below in walk(node))


def replace_symbols(node: Node, names: dict[str, str]) -> Node:
    if node.op == "sym":
        return node._replace(value=names.get(node.value, node.value))
    return node._replace(args=tuple(replace_symbols(below, names) for below in node.args)) if node.args else node


def show(node: Node) -> str:
    """A compact form for people, such as `add(x, 2)`."""
    if node.op == "num":
        value = node.value.value
        return str(value) if max(value.numerator.bit_length(), value.denominator.bit_length()) < 1000 else "number"
    label = node.op if node.value is None or node.op in ("matrix", "list") else f"{node.op}:{_label(node.value)}"
    if not node.args:
        return _label(node.value) if node.op in ("sym", "const", "field") else label
    return f"{label}({', '.join(show(below) for below in node.args)})"


def _label(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
