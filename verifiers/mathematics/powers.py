"""Powers and roots of quotients of polynomials: of numbers over their prime factors, of e^(i pi q) in radicals."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, isqrt, lcm

from verifiers.mathematics.polynomials import (
    IMAGINARY,
    MAX_BITS,
    MAX_POWER,
    ONE,
    PI,
    UNITY,
    Atom,
    E,
    Mono,
    Poly,
    Quotient,
    Undecided,
    Undefined,
    atom_of,
    constant,
    is_positive,
    key_of,
    plus,
    rational,
    reduced,
    settled,
    times,
)

MAX_TOWER = 2
"""Powers in the exponent of a power that has a rule."""
MAX_PRIME = 20_000
HALF = Fraction(1, 2)


def prime_powers(value: int) -> dict[int, int]:
    """Prime factors of a positive number; a large factor that is left counts as prime if it must be one."""
    powers: dict[int, int] = {}
    if value.bit_length() > 4096:
        raise Undecided("a number too large to factor")
    prime = 2
    while prime * prime <= value and prime <= MAX_PRIME:
        while value % prime == 0:
            powers[prime] = powers.get(prime, 0) + 1
            value //= prime
        prime += 1 if prime == 2 else 2
    if value > 1:
        root = isqrt(value)
        if root * root == value and root <= MAX_PRIME**2:
            powers[root] = powers.get(root, 0) + 2
        elif value > MAX_PRIME**2:
            raise Undecided("a number too large to factor")
        else:
            powers[value] = powers.get(value, 0) + 1
    return powers


def power_of(base: Quotient, exponent: Quotient) -> Quotient:
    value = rational(exponent)
    if value is None:
        return _symbolic_power(base, exponent)
    if not base[0]:
        if value <= 0:
            raise Undefined("zero to a power that is not positive")
        return constant(0)
    if value.denominator == 1:
        return _whole_power(base, value.numerator)
    return root_of(base, value)


def _whole_power(base: Quotient, power: int) -> Quotient:
    top, bottom = base if power >= 0 else (base[1], base[0])
    power = abs(power)
    return reduced(_poly_power(top, power), _poly_power(bottom, power))


def _poly_power(poly: Poly, power: int) -> Poly:
    if poly == UNITY or power == 0:
        return UNITY
    if len(poly) == 1:
        ((mono, coefficient),) = poly.items()
        factor, extra = _number_power(coefficient, power)
        powers = {atom: exponent * power for atom, exponent in mono}
        for atom, exponent in extra.items():
            powers[atom] = powers.get(atom, Fraction(0)) + exponent
        joined, extra_factor = settled(powers)
        return {joined: factor * extra_factor}
    if power > MAX_POWER:
        raise Undecided("a high power of a sum")
    result = UNITY
    for _ in range(power):
        result = times(result, poly)
    return result


def _number_power(value: Fraction, power: int) -> tuple[Fraction, dict[Atom, Fraction]]:
    """A power of a rational: a rational, and primes with exponents where it is too large to be written out."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if abs(value) == 1 or bits * power <= MAX_BITS:
        return value**power if abs(value) != 1 else value ** (power % 2), {}
    sign = Fraction(-1 if value < 0 and power % 2 else 1)
    powers = {prime: Fraction(count * power) for prime, count in prime_powers(abs(value.numerator)).items()}
    for prime, count in prime_powers(value.denominator).items():
        powers[prime] = powers.get(prime, Fraction(0)) - count * power
    return sign, powers


def root_of(base: Quotient, power: Fraction) -> Quotient:
    if not any(mono for poly in base for mono in poly):
        return number_root(base[0][ONE] / base[1][ONE], power)
    if base[1] != UNITY:
        if all(is_positive_monomial(poly) for poly in base):
            return reduced(root_of((base[0], UNITY), power)[0], root_of((base[1], UNITY), power)[0])
        return _opaque_root(base, power)
    if len(base[0]) == 1:
        ((mono, coefficient),) = base[0].items()
        is_lone_symbol = len(mono) == 1 and all(p == 1 and isinstance(a, str) and a != IMAGINARY for a, p in mono)
        if is_positive_monomial(base[0]) or (coefficient > 0 and is_lone_symbol):
            scaled = number_root(coefficient, power)
            joined, extra = settled({atom: exponent * power for atom, exponent in mono})
            return times(scaled[0], {joined: extra}), scaled[1]
    return _opaque_root(base, power)


def is_positive_monomial(poly: Poly) -> bool:
    return len(poly) == 1 and all(c > 0 and all(is_positive(atom) for atom, _ in m) for m, c in poly.items())


def number_root(value: Fraction, power: Fraction) -> Quotient:
    """A fractional power of a rational; odd roots of negative numbers are real, square roots imaginary."""
    if value < 0:
        root = number_root(-value, power)
        if power.denominator % 2:
            sign = -1 if power.numerator % 2 else 1
            return {mono: sign * coefficient for mono, coefficient in root[0].items()}, root[1]
        if power.denominator == 2:
            joined, extra = settled({IMAGINARY: Fraction(power.numerator % 4)})
            return times(root[0], {joined: extra}), root[1]
        raise Undecided("a root of a negative number")
    powers: dict[Atom, Fraction] = {p: power * n for p, n in prime_powers(value.numerator).items()}
    for prime, count in prime_powers(value.denominator).items():
        powers[prime] = powers.get(prime, Fraction(0)) - power * count
    mono, factor = settled(powers)
    return {mono: factor}, UNITY


def _opaque_root(base: Quotient, power: Fraction) -> Quotient:
    content = gcd(*(c.numerator for c in base[0].values())), lcm(*(c.denominator for c in base[0].values()))
    scale = Fraction(*content)
    inner = {mono: coefficient / scale for mono, coefficient in base[0].items()}, base[1]
    scaled = number_root(scale, power)
    return times(scaled[0], atom_of(("root", key_of(inner), power.denominator), power * power.denominator)[0]), scaled[
        1
    ]


def _symbolic_power(base: Quotient, exponent: Quotient) -> Quotient:
    """e^u and n^u for positive rationals n, split over the terms of u; other powers are opaque."""
    if exponent[1] == UNITY and base == atom_of(E):
        return _split_power({E: Fraction(1)}, exponent[0])
    value = rational(base)
    if exponent[1] != UNITY or value is None or value <= 0:
        return atom_of(("power of", key_of(base), key_of(exponent)))
    primes: dict[Atom, Fraction] = {p: Fraction(n) for p, n in prime_powers(value.numerator).items()}
    primes.update({p: Fraction(-n) for p, n in prime_powers(value.denominator).items()})
    return _split_power(primes, exponent[0])


def _split_power(bases: dict[Atom, Fraction], exponent: Poly) -> Quotient:
    if any(_height(mono) >= MAX_TOWER for mono in exponent):
        raise Undecided("a tower of powers")
    powers: dict[Atom, Fraction] = {}
    result = UNITY
    for base, weight in bases.items():
        for mono, coefficient in exponent.items():
            if base == E and mono == frozenset({(IMAGINARY, Fraction(1)), (PI, Fraction(1))}):
                result = times(result, _turn(coefficient))
            else:
                root, rest = _without_logarithm(base, mono)
                atom = ("power", root, rest) if rest else root
                powers[atom] = powers.get(atom, Fraction(0)) + coefficient * weight
    mono, factor = settled(powers)
    return times(result, {mono: factor}), UNITY


def _without_logarithm(base: Atom, exponent: Mono) -> tuple[Atom, Mono]:
    """base^exponent in one form: e^(u ln p) is p^u where that is the only logarithm, so 3^(ln 5 / ln 3) is 5."""
    powers = dict(exponent)
    if isinstance(base, int):
        powers[("ln", base)] = powers.get(("ln", base), Fraction(0)) + 1
    powers = {atom: power for atom, power in powers.items() if power}
    logarithms = [atom for atom in powers if isinstance(atom, tuple) and atom[0] == "ln" and isinstance(atom[1], int)]
    if len(logarithms) == 1 and powers[logarithms[0]] == 1:
        base = logarithms[0][1]
        del powers[logarithms[0]]
    elif logarithms:
        base = E
    return base, frozenset(powers.items())


def _turn(half_turns: Fraction) -> Poly:
    """e^(i pi q) in radicals, for multiples of 15 degrees."""
    cosine, sine = cosine_of(half_turns), cosine_of(half_turns - HALF)
    if cosine is None or sine is None:
        return {frozenset({(("turn", half_turns % 2), Fraction(1))}): Fraction(1)}
    return plus(cosine, times(sine, atom_of(IMAGINARY)[0]))


def _surd(*terms: tuple[Fraction, int]) -> Poly:
    """A sum of c sqrt(n)."""
    poly: Poly = {}
    for coefficient, radicand in terms:
        poly = plus(poly, {m: c * coefficient for m, c in number_root(Fraction(radicand), HALF)[0].items()})
    return poly


_QUARTER = Fraction(1, 4)
_COSINES = {
    Fraction(0): ((Fraction(1), 1),), Fraction(1, 12): ((_QUARTER, 6), (_QUARTER, 2)),
    Fraction(1, 6): ((HALF, 3),), _QUARTER: ((HALF, 2),), Fraction(1, 3): ((HALF, 1),),
    Fraction(5, 12): ((_QUARTER, 6), (-_QUARTER, 2)), HALF: (),
    Fraction(1, 5): ((_QUARTER, 1), (_QUARTER, 5)), Fraction(2, 5): ((-_QUARTER, 1), (_QUARTER, 5)),
}  # fmt: skip


def cosine_of(half_turns: Fraction) -> Poly | None:
    """cos(pi q) in radicals, None when it has no short form."""
    angle = abs(half_turns) % 2
    angle = min(angle, 2 - angle)
    sign = -1 if angle > HALF else 1
    terms = _COSINES.get(1 - angle if sign < 0 else angle)
    return None if terms is None else _surd(*((sign * coefficient, radicand) for coefficient, radicand in terms))


def pi_multiple(value: Quotient) -> Fraction | None:
    top, bottom = value
    if not top:
        return Fraction(0)
    if bottom != UNITY or top.keys() != {frozenset({(PI, Fraction(1))})}:
        return None
    return next(iter(top.values()))


def _height(mono: Mono) -> int:
    """How many powers stand on each other in a monomial."""
    return max((1 + _height(atom[2]) for atom, _ in mono if isinstance(atom, tuple) and atom[0] == "power"), default=0)
