"""Made-up answers of the kinds that GSM8K and MATH ask for, with the working before them and a known verdict.

Half of the references are integers; the rest are decimals, fractions, radicals, points, intervals, polynomials,
multiples of pi, pairs of solutions, percentages, sets and words. Six in ten answers are right, a third of those in
another form than the reference.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Pair(NamedTuple):
    """`right`: whether the completion answers the reference."""

    reference: str
    completion: str
    right: bool


@dataclass(frozen=True, slots=True)
class _Item:
    reference: str
    other_form: str
    wrong: str


def make_pairs(count: int, seed: int = 0) -> list[Pair]:
    """The same pairs for the same arguments. Completions are some 200 to 1,400 characters with a box at the end."""
    draw = random.Random(seed)
    kinds, weights = zip(*_KINDS, strict=True)
    pairs = []
    for _ in range(count):
        item = draw.choices(kinds, weights)[0](draw)
        answer = draw.choices((item.reference, item.other_form, item.wrong), (40, 20, 40))[0]
        ending = draw.choice(_ENDINGS).replace("ANSWER", answer)
        pairs.append(Pair(item.reference, f"{_working(draw)} {ending}", answer != item.wrong))
    return pairs


def _working(draw: random.Random) -> str:
    lines = []
    for _ in range(draw.randint(4, 24)):
        a, b = draw.randint(2, 60), draw.randint(2, 60)
        lines.append(draw.choice(_LINES).replace("AB", str(a * b)).replace("A", str(a)).replace("B", str(b)))
    return " ".join(lines)


_LINES = (
    "Let us see what is known here.",
    "Every row has A seats and there are B rows, which makes $A \\times B = AB$ seats.",
    "Hence $x = \\frac{A}{B}$ would be a first guess.",
    "We need $y^2 - Ay + B = 0$ to have a double root.",
    "That leaves A of them for the second day.",
    "The angle is $A^\\circ$, so its sine is positive.",
    "Note that $\\sqrt{AB}$ lies between the two.",
    "So far this is what was to be expected.",
    "Multiplying both sides by $B$ gives $Bz = AB$.",
    "The probability of that is $1 - \\frac{1}{A}$.",
)
_ENDINGS = ("The answer is $\\boxed{ANSWER}$.", "Therefore\n\\[\\boxed{ANSWER}\\]", "**Answer:** $\\boxed{ANSWER}$")


def _integer(draw: random.Random) -> _Item:
    n = draw.randint(1, 9000)
    forms = (f"{n}.00", f"{n:,}", f"n = {n}", f"{n} \\text{{ coins}}", f"\\${n}", f"{n}.")
    return _Item(str(n), draw.choice(forms), str(n + draw.choice((-1, 1, 7, 100))))


def _decimal(draw: random.Random) -> _Item:
    hundredths = draw.randint(11, 9999)
    value = f"{hundredths / 100:.2f}"
    return _Item(value, f"{value}0", f"{(hundredths + 3) / 100:.2f}")


def _fraction(draw: random.Random) -> _Item:
    value = Fraction(draw.choice((-1, 1)) * draw.randint(1, 50), draw.randint(2, 40))
    if value.denominator == 1:
        value += Fraction(1, 3)
    sign, top, bottom = "-" * (value < 0), abs(value.numerator), value.denominator
    forms = (
        f"{sign}{top}/{bottom}",
        f"{sign}\\tfrac{{{top}}}{{{bottom}}}",
        f"{sign}\\frac{{{2 * top}}}{{{2 * bottom}}}",
    )
    return _Item(f"{sign}\\frac{{{top}}}{{{bottom}}}", draw.choice(forms), f"{sign}\\frac{{{top + 1}}}{{{bottom}}}")


def _radical(draw: random.Random) -> _Item:
    a, b = draw.randint(2, 9), draw.choice((2, 3, 5, 7, 11))
    return _Item(f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}", f"{a}\\sqrt{{{b + 1}}}")


def _point(draw: random.Random) -> _Item:
    x, y = draw.randint(-12, 12), draw.randint(-12, 12)
    return _Item(f"({x}, {y})", f"\\left({x},{y}\\right)", f"({x}, {y + 2})")


def _interval(draw: random.Random) -> _Item:
    low, high = sorted(draw.sample(range(-15, 15), 2))
    return _Item(f"({low}, {high}]", f"\\left({low},{high}\\right]", f"({low}, {high})")


def _polynomial(draw: random.Random) -> _Item:
    a, b = draw.randint(1, 9), draw.randint(1, 9)
    return _Item(f"x^2 + {a + b}x + {a * b}", f"(x + {b})(x + {a})", f"x^2 + {a + b}x + {a * b + 1}")


def _pi(draw: random.Random) -> _Item:
    a = draw.randint(2, 30)
    return _Item(f"{a}\\pi", f"\\frac{{{3 * a}\\pi}}{{3}}", f"{a + 1}\\pi")


def _solutions(draw: random.Random) -> _Item:
    a, b = draw.sample(range(-30, 30), 2)
    return _Item(f"{a}, {b}", f"{b}, {a}", f"{a}, {b + 100}")


def _percent(draw: random.Random) -> _Item:
    a = draw.randint(1, 98)
    return _Item(f"{a}\\%", f"{a}\\text{{ percent}}", f"{a + 1}\\%")


def _set(draw: random.Random) -> _Item:
    a, b, c = draw.sample(range(20), 3)
    return _Item(f"\\{{{a}, {b}, {c}\\}}", f"\\{{{c}, {a}, {b}\\}}", f"\\{{{a}, {b}\\}}")


def _word(draw: random.Random) -> _Item:
    right, wrong = draw.sample(("Tuesday", "odd", "Maria", "hyperbola", "increasing", "no solution"), 2)
    return _Item(f"\\text{{{right}}}", right, f"\\text{{{wrong}}}")


_KINDS: tuple[tuple[Callable[[random.Random], _Item], int], ...] = (
    (_integer, 50),
    (_decimal, 8),
    (_fraction, 14),
    (_radical, 5),
    (_point, 4),
    (_interval, 3),
    (_polynomial, 4),
    (_pi, 3),
    (_solutions, 2),
    (_percent, 3),
    (_set, 2),
    (_word, 2),
)
