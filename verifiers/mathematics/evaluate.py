"""The value of an expression at a point, in floats or in the arbitrary precision of mpmath.

One walk over the tree for both: the context brings the functions. Roots of odd degree are real on real numbers.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from verifiers.mathematics.nodes import Node
from verifiers.mathematics.polynomials import Undecided, Undefined
from verifiers.mathematics.units import PERCENT

MAX_LOG2 = 1 << 34
"""Of the size of a number that is evaluated."""
MAX_GAMMA = 10**30
"""Of an argument of the gamma function."""


class Floats:
    """Complex floats with the interface that `evaluate` needs of mpmath."""

    pi, e, j = math.pi, math.e, 1j
    tiny = 1e-300
    exp, log, sin, cos, tan = cmath.exp, cmath.log, cmath.sin, cmath.cos, cmath.tan
    sinh, cosh, tanh, asin, acos, atan = cmath.sinh, cmath.cosh, cmath.tanh, cmath.asin, cmath.acos, cmath.atan
    asinh, acosh, atanh = cmath.asinh, cmath.acosh, cmath.atanh

    @staticmethod
    def mpf(value: float) -> float:
        return float(value)

    @staticmethod
    def gamma(value: complex) -> float:
        return math.gamma(value.real)


def approximate(node: Node, values: Mapping[str, float] | None = None) -> float | None:
    """A real constant as a float, infinities included; None for everything else."""
    if node.op == "const" and node.value == "inf":
        return math.inf
    if node.op == "neg" and node.args[0] == Node("const", (), "inf"):
        return -math.inf
    try:
        result = complex(evaluate(node, values or {}, Floats))
    except (Undecided, Undefined, ArithmeticError, ValueError, TypeError):
        return None
    return result.real if abs(result.imag) <= 1e-12 * max(1.0, abs(result.real)) else None


def evaluate(node: Node, values: Mapping[str, Any], ctx: Any) -> Any:
    """The number that the expression stands for. Raises `Undecided`, `Undefined`, or what the context raises."""
    op = node.op
    if op == "num":
        value = node.value.value
        return ctx.mpf(value.numerator) / value.denominator
    if op == "sym":
        if node.value not in values:
            raise Undecided(f"no value for {node.value}")
        return values[node.value]
    if op == "based":
        return ctx.mpf(int(*node.value))
    if op == "const":
        return _constant(node.value, ctx)
    if op == "pow":
        return _power(node, values, ctx)
    arguments = [evaluate(argument, values, ctx) for argument in node.args]
    if op == "add":
        return sum(arguments[1:], arguments[0])
    if op == "mul":
        result = arguments[0]
        for factor in arguments[1:]:
            result = result * factor
        return result
    if op == "div":
        if not arguments[1]:
            raise Undefined("division by zero")
        return arguments[0] / arguments[1]
    if op == "neg":
        return -arguments[0]
    if op == "unit":
        return arguments[0] / 100 if node.value == PERCENT else arguments[0]
    if op == "fact":
        return _gamma(arguments[0] + 1, ctx)
    if op == "fn":
        return _function(node, arguments, ctx)
    raise Undecided(op)


def _constant(name: str, ctx: Any) -> Any:
    if name == "inf":
        raise Undecided("infinity")
    return {"pi": +ctx.pi, "e": +ctx.e, "i": ctx.j}[name]


def _real(value: Any, ctx: Any) -> Any | None:
    """The real part of a number that is real, else None."""
    real, imaginary = getattr(value, "real", value), getattr(value, "imag", 0)
    return real if abs(imaginary) <= abs(real) * _noise(ctx) or not imaginary else None


def _noise(ctx: Any) -> Any:
    return getattr(ctx, "eps", 1e-15) * 1000


def _power(node: Node, values: Mapping[str, Any], ctx: Any) -> Any:
    base = evaluate(node.args[0], values, ctx)
    exponent = evaluate(node.args[1], values, ctx)
    real = _real(exponent, ctx)
    if not base:
        if real is None or real <= 0:
            raise Undefined("zero to a power that is not positive")
        return ctx.mpf(0)
    magnitude = abs(ctx.log(abs(base)))
    if magnitude * abs(exponent) > MAX_LOG2:
        raise Undecided("a number too large")
    exact = _exact(node.args[1])
    if exact is not None and exact.denominator == 1 and abs(exact) < 10**6:
        return base ** int(exact)
    if exact is not None:
        return _rational_power(base, exact, ctx)
    return ctx.exp(exponent * ctx.log(base))


def _exact(node: Node) -> Fraction | None:
    """The value of a plain rational exponent."""
    if node.op == "num":
        return node.value.value
    if node.op == "neg":
        inner = _exact(node.args[0])
        return None if inner is None else -inner
    if node.op == "div":
        a, b = _exact(node.args[0]), _exact(node.args[1])
        return None if a is None or not b else a / b
    return None


def _rational_power(base: Any, power: Fraction, ctx: Any) -> Any:
    real = _real(base, ctx)
    exponent = ctx.mpf(power.numerator) / power.denominator
    if real is None:
        return ctx.exp(exponent * ctx.log(base))
    if real > 0:
        return ctx.exp(exponent * ctx.log(real))
    positive = ctx.exp(exponent * ctx.log(-real))
    if power.denominator % 2:
        return -positive if power.numerator % 2 else positive
    return ctx.exp(exponent * ctx.log(base))


def _function(node: Node, arguments: list[Any], ctx: Any) -> Any:
    name = node.value
    x = arguments[0]
    if name == "root":
        index = _exact(node.args[1])
        if not index:
            raise Undecided("a root with a strange index")
        return _rational_power(x, 1 / index, ctx) if x else ctx.mpf(0)
    if name in ("ln", "log"):
        if not x:
            raise Undefined("the logarithm of zero")
        base = arguments[1] if len(arguments) > 1 else (10 if name == "log" else None)
        return ctx.log(x) if base is None else ctx.log(x) / ctx.log(ctx.mpf(10) if base == 10 else base)
    if name == "abs":
        return abs(x)
    if name in ("conj", "Re", "Im"):
        real, imaginary = getattr(x, "real", x), getattr(x, "imag", 0)
        return {"conj": real - ctx.j * imaginary, "Re": real, "Im": imaginary}[name]
    if name in _DIRECT:
        return getattr(ctx, _DIRECT[name])(x)
    if name in _RECIPROCAL:
        value = getattr(ctx, _RECIPROCAL[name])(x)
        if abs(value) < _noise(ctx):
            raise Undefined("division by zero")
        return 1 / value
    if name in ("arccot", "arcsec", "arccsc"):
        inverse = {"arccot": ctx.atan, "arcsec": ctx.acos, "arccsc": ctx.asin}[name]
        return inverse(1 / x) if x else ctx.pi / 2
    if name in ("floor", "ceil", "sgn"):
        return _step(name, _real(x, ctx), ctx)
    if name == "binom":
        n, k = arguments
        return _gamma(n + 1, ctx) / _gamma(k + 1, ctx) / _gamma(n - k + 1, ctx)
    if name in ("max", "min"):
        reals = [real for value in arguments if (real := _real(value, ctx)) is not None]
        if len(reals) == len(arguments):
            return max(reals) if name == "max" else min(reals)
    if name == "gamma":
        return _gamma(x, ctx)
    raise Undecided(f"the function {name}")


def _gamma(value: Any, ctx: Any) -> Any:
    if abs(value) > MAX_GAMMA:
        raise Undecided("a factorial too large")
    return ctx.gamma(value)


def _step(name: str, value: Any, ctx: Any) -> Any:
    if value is None:
        raise Undecided(name)
    if name == "sgn":
        return ctx.mpf((value > 0) - (value < 0))
    return ctx.mpf(int(math.floor(value) if name == "floor" else math.ceil(value)))


_DIRECT = {
    "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arsinh": "asinh", "arcosh": "acosh", "artanh": "atanh",
}  # fmt: skip
_RECIPROCAL = {"cot": "tan", "sec": "cos", "csc": "sin", "coth": "tanh", "sech": "cosh", "csch": "sinh"}
