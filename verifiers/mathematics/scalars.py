"""Whether two expressions with their units are the same quantity."""

from __future__ import annotations

from fractions import Fraction

from verifiers.mathematics.judge import Judge
from verifiers.mathematics.nodes import Node, Numeral, has, negative, number, replace_symbols, symbols
from verifiers.mathematics.units import DEGREE, PERCENT, RADIAN, Unit, same_dimensions
from verifiers.mathematics.values import Scalar
from verifiers.policy import Policy

_PI = Node("const", (), "pi")


def same_scalars(a: Scalar, b: Scalar, judge: Judge) -> bool:
    """Whether two expressions with their units are the same; a is the reference."""
    a, b = _loose_letters(a, b), _loose_letters(b, a)
    x, y = _renamed(a, b)
    unit_a, unit_b = _unit(a, judge.policy), _unit(b, judge.policy)
    if unit_a is None and unit_b is None:
        return judge.equal(x, y)
    if unit_a is None or unit_b is None:
        if PERCENT in (unit_a, unit_b):
            return _percentage(x, y, judge, gold_has_sign=unit_a is not None)
        return _one_unit(unit_a or unit_b, (y, x) if unit_a is None else (x, y), judge)
    if {unit_a, unit_b} == {DEGREE, RADIAN}:
        degrees, radians = (x, y) if unit_a == DEGREE else (y, x)
        return judge.equal(_in_radians(degrees), radians)
    if not same_dimensions(unit_a, unit_b):
        return False
    if unit_a.factor == unit_b.factor or unit_a.dimensions != unit_b.dimensions:
        return judge.equal(x, y)
    return judge.equal(_scaled(x, unit_a.factor / unit_b.factor), y)


def _unit(value: Scalar, policy: Policy) -> Unit | None:
    if value.unit is None or not value.unit.dimensions:
        return None
    return None if policy.units == "ignore" and value.unit not in (PERCENT, DEGREE) else value.unit


def _one_unit(unit: Unit | None, nodes: tuple[Node, Node], judge: Judge) -> bool:
    """A quantity against a bare number; `nodes` are the quantity's and the other one."""
    quantity, bare = nodes
    if unit == DEGREE and has(bare, "const"):
        return judge.equal(_in_radians(quantity), bare)
    return judge.equal(quantity, bare)


def _percentage(gold: Node, answer: Node, judge: Judge, *, gold_has_sign: bool) -> bool:
    """A percentage against a bare number.

    The bare numeral will do for a reference in percent. The other way it will only where the reference is a whole
    number above 1, which can hardly be a share: data sets leave the sign out where a question asks for a percentage.
    """
    if not gold_has_sign:
        if judge.policy.bare_percent and _is_whole(gold) and judge.equal(gold, answer):
            return True
        return judge.equal(_scaled(gold, Fraction(100)), answer)
    if judge.policy.bare_percent and judge.equal(gold, answer):
        return True
    return judge.equal(gold, _scaled(answer, Fraction(100)))


def _is_whole(node: Node) -> bool:
    return node.op == "num" and node.value.value > 1 and node.value.value.denominator == 1


def _in_radians(degrees: Node) -> Node:
    return Node("div", (Node("mul", (degrees, _PI)), number(180)))


def _scaled(node: Node, factor: Fraction) -> Node:
    """A multiple; of a decimal, as a decimal with its digits moved where that is possible."""
    if node.op == "neg":
        return negative(_scaled(node.args[0], factor))
    if node.op == "num":
        decimals = node.value.decimals
        shift = len(str(factor.numerator)) - 1
        if decimals is not None and factor == 10**shift:
            decimals -= shift
        elif decimals is not None:
            decimals = None
        return Node("num", (), Numeral(node.value.value * factor, decimals, node.value.significant))
    return Node("mul", (number(factor), node))


def _loose_letters(value: Scalar, other: Scalar) -> Scalar:
    """`8 m` is 8 times m where the other side has a variable m."""
    letter = value.unit.letter if value.unit is not None else ""
    word, _, power = letter.partition("^")
    if not word or other.unit is not None or not set(word) <= symbols(other.node):
        return value
    *variables, last = (Node("sym", (), name) for name in word)
    if power.isdigit():
        last = Node("pow", (last, number(int(power))))
    return Scalar(Node("mul", (value.node, *variables, last)), None, value.name)


def _renamed(a: Scalar, b: Scalar) -> tuple[Node, Node]:
    """f(x) = x + 5 and f(t) = t + 5 in the same variable; h (h + 2) as a product where h is a variable."""
    x, y = a.node, b.node
    if "(" in a.name and "(" in b.name and a.name != b.name:
        names = [name.partition("(")[2].rstrip(")").split(",") for name in (a.name, b.name)]
        if len(names[0]) == len(names[1]):
            y = replace_symbols(y, dict(zip(names[1], names[0], strict=True)))
    if has(x, "call") != has(y, "call"):
        x, y = _without_calls(x), _without_calls(y)
    return x, y


def _without_calls(node: Node) -> Node:
    args = tuple(_without_calls(below) for below in node.args)
    if node.op == "call" and len(args) == 1 and node.value.isalpha():
        return Node("mul", (Node("sym", (), node.value), args[0]))
    return node._replace(args=args)
