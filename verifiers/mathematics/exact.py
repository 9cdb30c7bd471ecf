"""The exact value of an expression, as a quotient of polynomials: one rule for each operation and function."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb, gcd, lcm
from typing import Any

from verifiers.mathematics.nodes import Node
from verifiers.mathematics.polynomials import (
    IMAGINARY,
    MAX_BITS,
    ONE,
    PI,
    UNITY,
    E,
    Mono,
    Poly,
    Quotient,
    Undecided,
    Undefined,
    atom_of,
    constant,
    key_of,
    plus,
    rational,
    reduced,
    renew_budget,
    same,
    times,
)
from verifiers.mathematics.powers import (
    HALF,
    cosine_of,
    is_positive_monomial,
    pi_multiple,
    power_of,
    prime_powers,
    root_of,
)
from verifiers.mathematics.units import PERCENT

MAX_WORK = 500
"""Products of terms that one product of sums may take."""
MAX_FACTORIAL = 3000


def quotient(node: Node) -> Quotient:
    """Numerator and denominator of an expression. Raises `Undecided` or `Undefined`."""
    rule = _RULES.get(node.op)
    if rule is None:
        raise Undecided(node.op)
    return rule(node)


def exact_quotient(node: Node) -> Quotient:
    """`quotient`, cached, and so is that it stays undecided."""
    found = _cached(node)
    if isinstance(found, Undecided):
        raise Undecided(str(found))
    return found


@lru_cache(maxsize=4096)
def _cached(node: Node) -> Quotient | Undecided:
    renew_budget()
    try:
        return quotient(node)
    except Undecided as error:
        return error.with_traceback(None)
    finally:
        renew_budget()


def exactly_same(a: Node, b: Node) -> bool:
    """Whether two expressions are equal, by exact arithmetic alone. Raises `Undecided` or `Undefined`."""
    return a == b or same(exact_quotient(a), exact_quotient(b))


def _num(node: Node) -> Quotient:
    return constant(node.value.value)


def _sym(node: Node) -> Quotient:
    return atom_of(node.value)


def _const(node: Node) -> Quotient:
    if node.value == "inf":
        raise Undecided("infinity")
    return atom_of({"pi": PI, "e": E, "i": IMAGINARY}[node.value])


def _add(node: Node) -> Quotient:
    top, bottom = quotient(node.args[0])
    for term in node.args[1:]:
        other_top, other_bottom = quotient(term)
        if bottom == other_bottom:
            top = plus(top, other_top)
        else:
            top = plus(times(top, other_bottom), times(other_top, bottom))
            bottom = times(bottom, other_bottom)
    return top, bottom


def _mul(node: Node) -> Quotient:
    top, bottom = quotient(node.args[0])
    work = 0
    for factor in node.args[1:]:
        other = quotient(factor)
        work += len(top) * len(other[0]) + len(bottom) * len(other[1])
        if work > MAX_WORK:
            raise Undecided("a long product")
        top, bottom = times(top, other[0]), times(bottom, other[1])
    return reduced(top, bottom)


def _div(node: Node) -> Quotient:
    (a, b), (c, d) = quotient(node.args[0]), quotient(node.args[1])
    return reduced(times(a, d), times(b, c))


def _neg(node: Node) -> Quotient:
    top, bottom = quotient(node.args[0])
    return {mono: -coefficient for mono, coefficient in top.items()}, bottom


def _unit(node: Node) -> Quotient:
    top, bottom = quotient(node.args[0])
    return ({mono: value / 100 for mono, value in top.items()} if node.value == PERCENT else top), bottom


def _pow(node: Node) -> Quotient:
    base, exponent = quotient(node.args[0]), quotient(node.args[1])
    return power_of(base, exponent)


def _fact(node: Node) -> Quotient:
    value = rational(quotient(node.args[0]))
    if value is None:
        return atom_of(("fact", key_of(quotient(node.args[0]))))
    if value < 0 or value.denominator != 1:
        raise Undecided("a factorial of no whole number")
    if value > MAX_FACTORIAL:
        return atom_of(("fact", value))
    return constant(_factorial(value.numerator))


def _fact2(node: Node) -> Quotient:
    value = rational(quotient(node.args[0]))
    if value is None or value < 0 or value.denominator != 1 or value > MAX_FACTORIAL:
        raise Undecided("a double factorial")
    result = 1
    for factor in range(value.numerator, 1, -2):
        result *= factor
    return constant(result)


def _factorial(n: int) -> int:
    result = 1
    for factor in range(2, n + 1):
        result *= factor
    return result


def _fn(node: Node) -> Quotient:
    rule = _FUNCTIONS.get(node.value)
    arguments = [quotient(argument) for argument in node.args]
    result = rule(*arguments) if rule is not None else None
    return atom_of((node.value, *map(key_of, arguments))) if result is None else result


def _fn_root(value: Quotient, index: Quotient) -> Quotient:
    power = rational(index)
    if not power:
        raise Undecided("a root with a strange index")
    return power_of(value, constant(1 / power))


def _fn_abs(value: Quotient) -> Quotient | None:
    number = rational(value)
    if number is not None:
        return constant(abs(number))
    if value[1] == UNITY and (parts := _complex_parts(value[0])) is not None:
        return root_of(constant(parts[0] ** 2 + parts[1] ** 2), HALF)
    if is_positive_monomial(value[0]) and is_positive_monomial(value[1]):
        return value
    negated = {mono: -coefficient for mono, coefficient in value[0].items()}, value[1]
    return atom_of(("abs", frozenset({key_of(value), key_of(negated)})))


def _complex_parts(poly: Poly) -> tuple[Fraction, Fraction] | None:
    imaginary = frozenset({(IMAGINARY, Fraction(1))})
    if not poly.keys() <= {ONE, imaginary} or imaginary not in poly:
        return None
    return poly.get(ONE, Fraction(0)), poly[imaginary]


def _fn_conj(value: Quotient) -> Quotient | None:
    parts = _complex_parts(value[0]) if value[1] == UNITY else None
    if parts is None:
        return None
    return plus(constant(parts[0])[0], {m: -c * parts[1] for m, c in atom_of(IMAGINARY)[0].items()}), UNITY


def _fn_ln(value: Quotient) -> Quotient | None:
    number = rational(value)
    if number is not None and number > 0:
        top: Poly = {}
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            for prime, count in prime_powers(part).items():
                top = plus(top, {frozenset({(("ln", prime), Fraction(1))}): Fraction(sign * count)})
        return top, UNITY
    if number is not None and number == 0:
        raise Undefined("the logarithm of zero")
    if value[1] == UNITY and len(value[0]) == 1 and is_positive_monomial(value[0]):
        return _ln_of_monomial(*next(iter(value[0].items())))
    return None


def _ln_of_monomial(mono: Mono, coefficient: Fraction) -> Quotient | None:
    whole = _fn_ln(constant(coefficient))
    top = whole[0] if whole is not None else {}
    for atom, power in mono:
        if atom == E:
            term = constant(power)[0]
        elif isinstance(atom, int):
            term = {frozenset({(("ln", atom), Fraction(1))}): power}
        elif isinstance(atom, tuple) and atom[0] == "power" and atom[1] == E:
            term = {atom[2]: power}
        else:
            return None
        top = plus(top, term)
    return top, UNITY


def _fn_log(value: Quotient, base: Quotient | None = None) -> Quotient | None:
    top = _fn_ln(value)
    bottom = _fn_ln(constant(10) if base is None else base)
    if top is None or bottom is None:
        return None
    return reduced(top[0], bottom[0])


def _fn_cos(value: Quotient) -> Quotient | None:
    angle = pi_multiple(value)
    cosine = None if angle is None else cosine_of(angle)
    return None if cosine is None else (cosine, UNITY)


def _fn_sin(value: Quotient) -> Quotient | None:
    angle = pi_multiple(value)
    cosine = None if angle is None else cosine_of(angle - HALF)
    return None if cosine is None else (cosine, UNITY)


def _fn_tan(value: Quotient) -> Quotient | None:
    sine, cosine = _fn_sin(value), _fn_cos(value)
    return None if sine is None or cosine is None else reduced(sine[0], cosine[0])


def _fn_binom(n: Quotient, k: Quotient) -> Quotient | None:
    top, bottom = rational(n), rational(k)
    if top is None or bottom is None or top.denominator != 1 or bottom.denominator != 1 or top < 0:
        return None
    if not 0 <= bottom <= top:
        return constant(0)
    steps = min(bottom.numerator, (top - bottom).numerator)
    if top.numerator.bit_length() * steps > MAX_BITS // 8:
        return atom_of(("binom", top, steps))
    return constant(comb(top.numerator, steps))


def _whole(function: Any) -> Any:
    def rule(*values: Quotient) -> Quotient | None:
        numbers = [rational(value) for value in values]
        if any(value is None or value.denominator != 1 for value in numbers):
            return None
        return constant(function(*(value.numerator for value in numbers if value is not None)))

    return rule


def _ordered(function: Any) -> Any:
    def rule(*values: Quotient) -> Quotient | None:
        numbers = [rational(value) for value in values]
        return None if None in numbers else constant(function(numbers))

    return rule


def _fn_floor(value: Quotient) -> Quotient | None:
    number = rational(value)
    return None if number is None else constant(number.numerator // number.denominator)


def _fn_ceil(value: Quotient) -> Quotient | None:
    number = rational(value)
    return None if number is None else constant(-(-number.numerator // number.denominator))


_FUNCTIONS: dict[str, Any] = {
    "root": _fn_root, "abs": _fn_abs, "conj": _fn_conj, "ln": _fn_ln, "log": _fn_log, "cos": _fn_cos, "sin": _fn_sin,
    "tan": _fn_tan, "binom": _fn_binom, "gcd": _whole(gcd), "lcm": _whole(lcm), "max": _ordered(max),
    "min": _ordered(min), "floor": _fn_floor, "ceil": _fn_ceil,
}  # fmt: skip


def _based(node: Node) -> Quotient:
    digits, base = node.value
    try:
        return constant(int(digits, base))
    except ValueError:
        raise Undefined(f"{digits} has no value in base {base}") from None


def _call(node: Node) -> Quotient:
    return atom_of(("call", node.value, *(key_of(quotient(argument)) for argument in node.args)))


_RULES: dict[str, Any] = {
    "num": _num, "sym": _sym, "const": _const, "add": _add, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow,
    "fact": _fact, "fact2": _fact2, "fn": _fn, "unit": _unit, "call": _call, "based": _based,
}  # fmt: skip
