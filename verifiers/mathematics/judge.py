"""What numbers are equal: exactly, or as the correct rounding to enough digits."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from verifiers.mathematics.evaluate import approximate
from verifiers.mathematics.exact import exact_quotient, exactly_same
from verifiers.mathematics.nodes import Node, Numeral, names, replace_symbols, symbols, walk
from verifiers.mathematics.numerals import MAX_EXPONENT
from verifiers.mathematics.polynomials import Undecided, proportional, rational
from verifiers.policy import Policy

_FLOAT_NOISE = Fraction(1, 10**13)
_WHOLE_FUNCTIONS = names("binom floor ceil gcd lcm abs max min sgn")


class Judge:
    """Decides which expressions are equal, by exact arithmetic. Raises `Undecided` where that does not reach."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def equal(self, a: Node, b: Node) -> bool:
        """Whether two expressions are the same value, or one is the correct rounding of the other."""
        if (
            a.op == b.op == "num"
            and None in (a.value.decimals, b.value.decimals)
            and (a.value.decimals is b.value.decimals or a.value.value == b.value.value)
        ):
            return a.value.value == b.value.value
        if (end := _infinite(a)) or _infinite(b):
            return end == _infinite(b)
        decimals = (_decimal(a), _decimal(b))
        for exact, decimal in ((a, decimals[1]), (b, decimals[0])):
            if decimal is not None and None in decimals and decimal.significant >= self.policy.significant_digits:
                return self._is_rounding(exact, decimal)
        a, b = _same_constant_case(a, b)
        if not (_has_bare_logarithm(a) or _has_bare_logarithm(b)):
            return self.same(a, b)
        return self.same(a, b) or self.same(_natural(a), _natural(b))

    def same(self, a: Node, b: Node) -> bool:
        return exactly_same(a, b)

    def same_curve(self, a: Node, b: Node, *, directed: bool) -> bool:
        """Whether a = 0 and b = 0 have the same solutions; `directed`: a < 0 and b < 0."""
        (top_a, bottom_a), (top_b, bottom_b) = exact_quotient(a), exact_quotient(b)
        ratio = proportional(top_a, top_b)
        if ratio is not None and bottom_a == bottom_b:
            return ratio > 0 or not directed
        if directed and bottom_a != bottom_b:
            raise Undecided("denominators of an inequality")
        if ratio is None and any(isinstance(atom, tuple) for top in (top_a, top_b) for mono in top for atom, _ in mono):
            raise Undecided("functions without a rule")
        return ratio is not None

    def _is_rounding(self, exact: Node, decimal: Numeral) -> bool:
        """Whether `decimal` is `exact`, or its correct rounding at the last digit that it shows."""
        try:
            value = rational(exact_quotient(exact))
        except Undecided:
            value = None
        decimals = decimal.decimals or 0
        half = Fraction(10) ** -decimals / 2
        if value is not None:
            return value == decimal.value if value.denominator == 1 else abs(value - decimal.value) <= half
        if decimals <= 0 and not _may_be_no_whole_number(exact):
            return False
        return self.is_within(exact, decimal.value, half)

    def is_within(self, exact: Node, center: Fraction, radius: Fraction) -> bool:
        """Whether a constant is at most `radius` from `center`."""
        if symbols(exact):
            return False
        value = approximate(exact)
        if value is None or abs(value) == inf:
            raise Undecided("a constant that floats do not reach")
        noise = abs(Fraction(value)) * _FLOAT_NOISE
        distance = abs(Fraction(value) - center)
        if abs(distance - radius) <= noise:
            raise Undecided("a rounding that floats do not decide")
        return distance < radius


def _infinite(node: Node) -> int:
    """1 or -1 for an infinity, 0 for everything else."""
    if node.op == "const":
        return int(node.value == "inf")
    if node.op == "neg":
        return -_infinite(node.args[0])
    return 0


def _decimal(node: Node) -> Numeral | None:
    """A number written as a decimal, perhaps with a sign or times a power of ten."""
    if node.op == "num":
        return node.value if node.value.decimals is not None else None
    if node.op == "mul" and len(node.args) == 2 and node.args[0].op == "num":
        return _scientific(node.args[0].value, node.args[1])
    if node.op == "neg" and (inner := _decimal(node.args[0])) is not None:
        return inner._replace(value=-inner.value)
    return None


def _scientific(mantissa: Numeral, power: Node) -> Numeral | None:
    """m x 10^k as one decimal."""
    if mantissa.decimals is None or power.op != "pow" or not _is_number(power.args[0], 10):
        return None
    sign, exponent = (-1, power.args[1].args[0]) if power.args[1].op == "neg" else (1, power.args[1])
    if exponent.op != "num" or exponent.value.value.denominator != 1 or exponent.value.value > MAX_EXPONENT:
        return None
    shift = sign * exponent.value.value.numerator
    return Numeral(mantissa.value * Fraction(10) ** shift, mantissa.decimals - shift, mantissa.significant)


def _is_number(node: Node, value: int) -> bool:
    return node.op == "num" and node.value.value == value


def _may_be_no_whole_number(node: Node) -> bool:
    """Whether an expression holds what makes it no whole number, so that a rounding of it is no rounded integer."""
    return any(
        below.op in ("const", "div") or (below.op == "fn" and below.value not in _WHOLE_FUNCTIONS)
        for below in walk(node)
    )


def _same_constant_case(a: Node, b: Node) -> tuple[Node, Node]:
    """A constant of integration called C on one side and c on the other."""
    first, second = symbols(a), symbols(b)
    if first != second and first ^ second == {"C", "c"}:
        b = replace_symbols(b, {"c": "C"})
        a = replace_symbols(a, {"c": "C"})
    return a, b


def _has_bare_logarithm(node: Node) -> bool:
    return any(below.op == "fn" and below.value == "log" and len(below.args) == 1 for below in walk(node))


def _natural(node: Node) -> Node:
    """With \\log as the natural logarithm: without a base it means either."""
    args = tuple(_natural(below) for below in node.args)
    if node.op == "fn" and node.value == "log" and len(args) == 1:
        return Node("fn", args, "ln")
    return node._replace(args=args) if args else node
