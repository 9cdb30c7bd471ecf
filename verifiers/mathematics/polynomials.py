"""Exact arithmetic in plain Python: quotients of sparse polynomials with rational coefficients.

The variables of a polynomial are atoms: symbols, primes with fractional powers (the root of 12 is 2 * 3^(1/2)), pi,
e, i, logarithms of primes, powers such as 2^x, and whatever has no rule here ("opaque"). All but the opaque ones are
independent of each other, so two quotients without opaque atoms are equal exactly when their cross products are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

MAX_TERMS = 120
MAX_BITS = 2_000_000
"""Of a whole number that is written out."""
MAX_POWER = 40
"""Of a sum that is multiplied out."""
MAX_WORK = 5000
"""Products of terms that the exact value of one expression may take; one of long numbers counts as several."""
_BITS_PER_STEP = 4000
Atom = Any
"""str: a symbol or a constant; int: a prime; tuple: a function of keys of polynomials."""
Mono = frozenset[tuple[Atom, Fraction]]
Poly = dict[Mono, Fraction]
Quotient = tuple[Poly, Poly]
PI, E, IMAGINARY = "#pi", "#e", "#i"
ONE: Mono = frozenset()
UNITY: Poly = {ONE: Fraction(1)}


class Undecided(Exception):
    """Needs more than exact arithmetic, or more of it than is allowed."""


class Undefined(Exception):
    """Has no value, such as 1/0."""


class _Budget(threading.local):
    left = MAX_WORK


_BUDGET = _Budget()


def renew_budget() -> None:
    """Allow this thread the work for one more expression."""
    _BUDGET.left = MAX_WORK


def _spend(steps: int) -> None:
    _BUDGET.left -= steps
    if _BUDGET.left < 0:
        raise Undecided("a long calculation")


def same(a: Quotient, b: Quotient) -> bool:
    """Whether two quotients are equal. Raises `Undecided` when they differ only as far as is known here."""
    left, right = _same_factorials(times(a[0], b[1]), times(b[0], a[1]))
    difference = plus(_large(left), _large(right), -1)
    if not difference:
        return True
    if any(_is_opaque(atom) for mono in difference for atom, _ in mono):
        raise Undecided("functions without a rule")
    return False


def proportional(a: Poly, b: Poly) -> Fraction | None:
    """The constant c with a = c b, None when there is none."""
    if not a or len(a) != len(b) or a.keys() != b.keys():
        return None
    ratios = {a[mono] / b[mono] for mono in a}
    return ratios.pop() if len(ratios) == 1 else None


def rational(value: Quotient) -> Fraction | None:
    """The value of a constant that is rational."""
    top, bottom = value
    if not top:
        return Fraction(0)
    if len(top) == len(bottom) == 1 and ONE in top and ONE in bottom:
        return top[ONE] / bottom[ONE]
    return proportional(top, bottom)


def constant(value: Fraction | int) -> Quotient:
    return ({ONE: Fraction(value)} if value else {}), UNITY


def atom_of(atom: Atom, power: Fraction | int = 1) -> Quotient:
    return {frozenset({(atom, Fraction(power))}): Fraction(1)}, UNITY


def plus(a: Poly, b: Poly, sign: int = 1) -> Poly:
    result = dict(a)
    for mono, coefficient in b.items():
        total = result.get(mono, 0) + sign * coefficient
        if total:
            result[mono] = total
        else:
            result.pop(mono, None)
    if len(result) > MAX_TERMS:
        raise Undecided("too many terms")
    return result


def times(a: Poly, b: Poly) -> Poly:
    if b == UNITY:
        return a
    if a == UNITY:
        return b
    if len(a) * len(b) > 4 * MAX_TERMS:
        raise Undecided("too many terms")
    _spend(len(a) * len(b))
    result: Poly = {}
    for mono, coefficient in a.items():
        for other, factor in b.items():
            joined, extra = _join(mono, other)
            total = result.get(joined, 0) + _checked(coefficient * factor * extra)
            if total:
                result[joined] = total
            else:
                result.pop(joined, None)
    return result


def _checked(value: Fraction) -> Fraction:
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    if bits > _BITS_PER_STEP:
        if bits > MAX_BITS:
            raise Undecided("too many digits")
        _spend(bits // _BITS_PER_STEP)
    return value


def _join(a: Mono, b: Mono) -> tuple[Mono, Fraction]:
    """The product of two monomials: a monomial and a rational factor."""
    if not a:
        return b, Fraction(1)
    if not b:
        return a, Fraction(1)
    powers = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return settled(powers)


def settled(powers: dict[Atom, Fraction]) -> tuple[Mono, Fraction]:
    """A monomial with whole powers of primes and of i taken out."""
    factor = Fraction(1)
    kept = []
    for atom, power in powers.items():
        if isinstance(atom, int):
            whole = power.numerator // power.denominator
            if whole and abs(whole) * atom.bit_length() <= MAX_BITS:
                factor *= Fraction(atom) ** whole
                power -= whole
        elif atom == IMAGINARY:
            turns = power.numerator % 4
            factor *= -1 if turns > 1 else 1
            power = Fraction(turns % 2)
        if power:
            kept.append((atom, power))
    return frozenset(kept), factor


def reduced(top: Poly, bottom: Poly) -> Quotient:
    """A quotient whose denominator is 1 where it is a number; else without a common monomial."""
    if not bottom:
        raise Undefined("division by zero")
    if not top:
        return {}, UNITY
    if len(bottom) == 1:
        ((mono, coefficient),) = bottom.items()
        if not mono:
            return ({key: value / coefficient for key, value in top.items()} if coefficient != 1 else top), UNITY
        movable = all(_is_nonzero(atom) for atom, _ in mono)
        if movable:
            inverse, extra = settled({atom: -power for atom, power in mono})
            return times(top, {inverse: extra / coefficient}), UNITY
    ratio = proportional(top, bottom)
    if ratio is not None:
        return constant(ratio)
    common = _common(top.keys() | bottom.keys())
    if common:
        return _without(top, common), _without(bottom, common)
    return top, bottom


def _common(monos: Iterable[Mono]) -> dict[Atom, Fraction]:
    least: dict[Atom, Fraction] | None = None
    for mono in monos:
        powers = dict(mono)
        if least is None:
            least = {atom: power for atom, power in powers.items() if isinstance(atom, str) and power > 0}
        else:
            least = {atom: min(power, powers[atom]) for atom, power in least.items() if powers.get(atom, 0) > 0}
        if not least:
            return {}
    return least or {}


def _without(poly: Poly, common: dict[Atom, Fraction]) -> Poly:
    result: Poly = {}
    for mono, coefficient in poly.items():
        powers = dict(mono)
        for atom, power in common.items():
            powers[atom] -= power
        joined, extra = settled(powers)
        result[joined] = result.get(joined, Fraction(0)) + coefficient * extra
    return result


def _same_factorials(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """With n! written as n (n - 1) ... m! where both are too large to be written out and m is close below n."""
    found = {atom for poly in (a, b) for mono in poly for atom, _ in mono if isinstance(atom, tuple)}
    large = sorted((atom[1] for atom in found if atom[0] == "fact" and isinstance(atom[1], Fraction)), reverse=True)
    for high, low in pairwise(large):
        if high - low > MAX_POWER:
            continue
        factor = Fraction(1)
        for step in range(low.numerator + 1, high.numerator + 1):
            factor *= step
        a, b = (_replaced(poly, ("fact", high), ("fact", low), factor) for poly in (a, b))
    return a, b


def _replaced(poly: Poly, old: Atom, new: Atom, factor: Fraction) -> Poly:
    """With `old` written as `factor` times `new`."""
    result: Poly = {}
    for mono, coefficient in poly.items():
        powers = dict(mono)
        power = powers.pop(old, Fraction(0))
        if power.denominator != 1:
            raise Undecided("a root of a factorial")
        powers[new] = powers.get(new, Fraction(0)) + power
        key = frozenset((atom, exponent) for atom, exponent in powers.items() if exponent)
        result[key] = result.get(key, Fraction(0)) + coefficient * factor**power.numerator
    return {mono: coefficient for mono, coefficient in result.items() if coefficient}


def _large(poly: Poly) -> Poly:
    """With all of a prime in one power, where that power is too large to be written out."""
    if not any(isinstance(atom, int) and abs(power) >= 1 for mono in poly for atom, power in mono):
        return poly
    result: Poly = {}
    for mono, coefficient in poly.items():
        powers = dict(mono)
        for atom, power in mono:
            if isinstance(atom, int) and abs(power) >= 1:
                coefficient, moved = _without_prime(coefficient, atom)
                powers[atom] = power + moved
        key = frozenset((atom, power) for atom, power in powers.items() if power)
        result[key] = result.get(key, Fraction(0)) + coefficient
    return {mono: coefficient for mono, coefficient in result.items() if coefficient}


def _without_prime(value: Fraction, prime: int) -> tuple[Fraction, int]:
    count = 0
    while value and value.numerator % prime == 0:
        value, count = value / prime, count + 1
    while value and value.denominator % prime == 0:
        value, count = value * prime, count - 1
    return value, count


def _is_opaque(atom: Atom) -> bool:
    if not isinstance(atom, tuple) or (atom[0] == "ln" and isinstance(atom[1], int)):
        return False
    return atom[0] != "power" or any(inner == IMAGINARY or _is_opaque(inner) for inner, _ in atom[2])


def _is_nonzero(atom: Atom) -> bool:
    """Whether an atom can be divided by without losing a point: no symbol and nothing that may vanish."""
    if isinstance(atom, tuple):
        return atom[0] == "power" or (atom[0] == "ln" and isinstance(atom[1], int))
    return isinstance(atom, int) or atom.startswith("#")


def is_positive(atom: Atom) -> bool:
    if isinstance(atom, tuple):
        return (atom[0] == "ln" and isinstance(atom[1], int)) or (
            atom[0] == "power" and all(inner != IMAGINARY for inner, _ in atom[2])
        )
    return isinstance(atom, int) or atom in (PI, E)


def key_of(value: Quotient) -> Any:
    """A hashable form of a quotient."""
    return frozenset(value[0].items()), frozenset(value[1].items())
