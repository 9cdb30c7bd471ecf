"""Whether what stands behind an "approximately equal" sign rounds what stands before it."""

from __future__ import annotations

from verifiers.mathematics.evaluate import approximate
from verifiers.mathematics.nodes import Node, has, symbols


def decimals_of(node: Node) -> int | None:
    """The decimals that a number shows; None for what is no decimal."""
    return node.value.decimals if node.op == "num" else decimals_of(node.args[0]) if node.op == "neg" else None


def roughly(a: Node, b: Node) -> bool:
    """Whether b rounds a (or a decimal a rounds b) to the digits that it shows; what has no value is not judged."""
    if a.op == b.op == "unit" and a.value == b.value:
        a, b = a.args[0], b.args[0]
    if has(Node("", (a, b)), "unit"):
        return True
    x, y = approximate(a), approximate(b)
    if x is None or y is None:
        return bool(symbols(a) | symbols(b)) or x is y
    rounded = b if _is_numeral(b) else a if decimals_of(a) is not None else None
    room = 0.0 if rounded is None else min(_last_digit(rounded), 0.1 * abs(x))
    return abs(x - y) <= room * (1 + 1e-9) + 1e-9 * abs(x)


def _is_numeral(node: Node) -> bool:
    return node.op == "num" or (node.op == "neg" and node.args[0].op == "num")


def _last_digit(node: Node) -> float:
    """How far a rounded numeral may be off: a unit of its last decimal, half a unit of its last digit but zeros."""
    if node.op == "neg":
        return _last_digit(node.args[0])
    if node.op != "num" or node.value.value.denominator != 1:
        return 10.0 ** -(node.value.decimals or 9) if node.op == "num" else 0.0
    digits = str(node.value.value.numerator)
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))
