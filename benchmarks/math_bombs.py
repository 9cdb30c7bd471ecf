"""Answers made to hang, to fill the memory or to crash whoever computes with them. None of them is right."""

from __future__ import annotations

import random
from collections.abc import Callable

from benchmarks.math_pairs import Pair


def make_bombs(count: int, seed: int = 0) -> list[Pair]:
    """The same bombs for the same arguments, every kind in turn, each with a reference to compare it with."""
    draw = random.Random(seed)
    made = (BOMBS[name](draw) for name in (list(BOMBS) * (count // len(BOMBS) + 1))[:count])
    return [Pair(reference, f"So we get $\\boxed{{{answer}}}$.", False) for reference, answer in made]


def _tower(draw: random.Random) -> tuple[str, str]:
    return str(draw.randint(2, 99)), f"{draw.randint(3, 9)}^{{9^{{{draw.randint(7, 9)}^{{9^9}}}}}}"


def _vanishing_tower(draw: random.Random) -> tuple[str, str]:
    a, n = draw.randint(6, 10), draw.randint(2, 99)
    return str(n), f"10^{{10^{{{a}}}}} - 10^{{10^{{{a}}}}} + {n + 1}"


def _factorial(draw: random.Random) -> tuple[str, str]:
    return str(draw.randint(2, 99)), f"({draw.randint(2, 9)}{draw.randint(10**6, 10**8)})!"


def _nested_factorial(draw: random.Random) -> tuple[str, str]:
    return f"{draw.randint(10, 20)}!", f"(({draw.randint(6, 9)}!)!)!"


def _binomial(draw: random.Random) -> tuple[str, str]:
    n = draw.randint(10**8, 10**9)
    return str(draw.randint(2, 99)), f"\\binom{{{n}}}{{{n // 2}}}"


def _brackets(draw: random.Random) -> tuple[str, str]:
    n, depth = draw.randint(2, 99), draw.randint(30, 400)
    return str(n), "(" * depth + str(n + 1) + ")" * depth


def _fractions(draw: random.Random) -> tuple[str, str]:
    depth = draw.randint(12, 60)
    return "\\frac{1 + \\sqrt{5}}{2}", "1 + \\frac{1}{" * depth + "1" + "}" * depth


def _roots(draw: random.Random) -> tuple[str, str]:
    depth = draw.randint(12, 60)
    return "3", "\\sqrt{6 + " * depth + "1" + "}" * depth


def _long_sum(draw: random.Random) -> tuple[str, str]:
    terms = draw.randint(200, 3000)
    return str(terms), " + ".join(["1"] * (terms + 1))


def _root_sum(draw: random.Random) -> tuple[str, str]:
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    return "\\sqrt{1000}", " + ".join(f"\\sqrt{{{prime}}}" for prime in draw.sample(primes, 9))


def _series(draw: random.Random) -> tuple[str, str]:
    return str(draw.randint(2, 99)), f"\\sum_{{k=1}}^{{{draw.randint(10**7, 10**9)}}} \\frac{{1}}{{k^2}}"


def _power(draw: random.Random) -> tuple[str, str]:
    degree = draw.randint(400, 9000)
    return f"x^{{{degree}}} + 1", f"(x + 1)^{{{degree}}}"


def _many_variables(draw: random.Random) -> tuple[str, str]:
    return "a^2 + b^2", f"(a + b + c + d + f + g)^{{{draw.randint(30, 90)}}} - (a + b + c + d + f)^{{80}}"


def _product(draw: random.Random) -> tuple[str, str]:
    factors = draw.randint(40, 150)
    return f"x^{{{factors}}}", "".join(f"(x^2 + {k}x + y - {k * k})" for k in range(factors))


def _trigonometry(draw: random.Random) -> tuple[str, str]:
    return "\\cos^2 x", f"\\sin^{{{draw.randint(60, 200)}}} x + \\cos^{{{draw.randint(60, 200)}}} 3x - \\tan^{{9}} 7x"


def _digits(draw: random.Random) -> tuple[str, str]:
    return "0.5", f"0.{'49' * draw.randint(5_000, 100_000)}"


BOMBS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "tower": _tower,
    "vanishing tower": _vanishing_tower,
    "factorial": _factorial,
    "nested factorial": _nested_factorial,
    "binomial": _binomial,
    "brackets": _brackets,
    "fractions": _fractions,
    "roots": _roots,
    "long sum": _long_sum,
    "sum of roots": _root_sum,
    "series": _series,
    "power": _power,
    "many variables": _many_variables,
    "product": _product,
    "trigonometry": _trigonometry,
    "digits": _digits,
}
"""Makers of (reference, answer), by kind."""
