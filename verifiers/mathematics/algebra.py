"""What runs in worker processes, because it may be slow: numeric evidence, and computer algebra as a last resort.

Two expressions are equal when they agree, relatively and to many digits, at several points where both are defined.
There is no absolute tolerance, and nothing is rounded. Only functions in this module import mpmath, sympy,
latex2sympy2_extended and Math-Verify.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from verifiers.mathematics.compare import compare
from verifiers.mathematics.evaluate import evaluate
from verifiers.mathematics.exact import exact_quotient
from verifiers.mathematics.judge import Judge
from verifiers.mathematics.nodes import Node, symbols
from verifiers.mathematics.polynomials import Undecided, Undefined, same
from verifiers.mathematics.reading import read
from verifiers.policy import Policy

DIGITS = 50
CHECK_DIGITS = 160
AGREEMENT = 35
"""Digits to which two values must agree."""
POINTS = 6
TRIES = 60


def load_numeric() -> Callable[..., tuple[bool, str]]:
    """What a worker for numeric evidence runs, warmed up."""
    decide_numerically(r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}", {})
    return decide_numerically


def decide_numerically(gold: str, answer: str, settings: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether two texts agree, and the rule that decided."""
    judge = NumericJudge(Policy(**settings))
    try:
        return compare(read(gold, judge.plain_same), read(answer, judge.plain_same), judge)
    except Undefined:
        return False, "undefined"
    except Undecided as error:
        return False, f"not_shown_equal: {error}"


class NumericJudge(Judge):
    """Exact arithmetic where it decides, values at random points where it does not."""

    def same(self, a: Node, b: Node) -> bool:
        return _same_numbers(a, b)

    plain_same = staticmethod(lambda a, b: _same_numbers(a, b))

    def same_curve(self, a: Node, b: Node, *, directed: bool) -> bool:
        """Whether the quotient of the two sides is one constant wherever it is defined."""
        try:
            return super().same_curve(a, b, directed=directed)
        except Undecided:
            pass
        ratios = [x / y for _, x, y in _values_at_points(a, b) if x and y]
        if len(ratios) < 3:
            raise Undecided("no points to compare at")
        agree = all(_agree(ratio, ratios[0]) for ratio in ratios)
        return agree and (not directed or ratios[0].real > 0)

    def is_within(self, exact: Node, center: Fraction, radius: Fraction) -> bool:
        import mpmath

        if symbols(exact):
            return False
        with mpmath.workdps(CHECK_DIGITS):
            value = _evaluated(exact, {})
            if value is None or abs(mpmath.im(value)) > mpmath.mpf(10) ** -DIGITS * abs(value):
                return False
            distance = abs(mpmath.re(value) - mpmath.mpf(center.numerator) / center.denominator)
            return bool(distance <= mpmath.mpf(radius.numerator) / radius.denominator)


def _same_numbers(a: Node, b: Node) -> bool:
    try:
        return a == b or same(exact_quotient(a), exact_quotient(b))
    except Undecided:
        pass
    found = _values_at_points(a, b)
    if not found:
        raise Undecided("no points to compare at")
    return all(_agree(x, y) for _, x, y in found) and _agree_closer(a, b, found[0][0])


def _agree(x: Any, y: Any) -> bool:
    import mpmath

    return bool(abs(x - y) <= mpmath.mpf(10) ** -AGREEMENT * max(abs(x), abs(y)))


def _agree_closer(a: Node, b: Node, point: Mapping[str, Any]) -> bool:
    """The same at a higher precision, at one point: what only looked equal parts."""
    import mpmath

    with mpmath.workdps(CHECK_DIGITS):
        x, y = _evaluated(a, point), _evaluated(b, point)
        if x is None or y is None:
            return True
        if max(abs(x), abs(y)) > mpmath.mpf(10) ** (CHECK_DIGITS - 40):
            raise Undecided("numbers too large to tell apart")
        return bool(abs(x - y) <= mpmath.mpf(10) ** (20 - CHECK_DIGITS) * max(abs(x), abs(y), abs(x + y)))


def _values_at_points(a: Node, b: Node) -> list[tuple[Mapping[str, Any], Any, Any]]:
    """Points and both values there: at real ones where both are real, unless there are none."""
    import mpmath

    names = symbols(a) | symbols(b)
    real: list[tuple[Mapping[str, Any], Any, Any]] = []
    others: list[tuple[Mapping[str, Any], Any, Any]] = []
    with mpmath.workdps(DIGITS):
        for point in _points(names, TRIES if names else 1):
            x, y = _evaluated(a, point), _evaluated(b, point)
            if x is None or y is None:
                continue
            x, y = _settled(a, point, x), _settled(b, point, y)
            (real if _is_real(x) and _is_real(y) else others).append((point, x, y))
            if len(real) >= POINTS:
                break
    return real if len(real) >= 2 or (real and not others) else real + others[:POINTS]


def _settled(node: Node, point: Mapping[str, Any], value: Any) -> Any:
    """A value that is only the noise of a cancellation, worked out again with more digits; zero if it shrinks."""
    import mpmath

    if not value or abs(value) > mpmath.mpf(10) ** (15 - DIGITS):
        return value
    with mpmath.workdps(CHECK_DIGITS):
        closer = _evaluated(node, point)
    if closer is None:
        return value
    return mpmath.mpf(0) if abs(closer) < abs(value) * mpmath.mpf(10) ** (DIGITS - CHECK_DIGITS + 30) else closer


def _is_real(value: Any) -> bool:
    import mpmath

    return bool(abs(mpmath.im(value)) <= mpmath.mpf(10) ** -AGREEMENT * abs(value))


def _points(names: frozenset[str], count: int) -> list[dict[str, Any]]:
    """Points with coordinates of both signs, near zero and further out, the same in every run."""
    import mpmath

    generator = random.Random(7)
    points = []
    for at in range(count):
        width = (1, 3, 12)[at % 3]
        low = 0 if at % 2 else -width
        points.append({n: mpmath.mpf(round(generator.uniform(low, width) * 10**9) or 1) / 10**9 for n in sorted(names)})
    if count > 1:
        points[3] = {name: mpmath.mpf(at + 5) for at, name in enumerate(sorted(names))}
    return points


def _evaluated(node: Node, point: Mapping[str, Any]) -> Any | None:
    import mpmath

    try:
        value = evaluate(node, point, mpmath.mp)
    except Undefined:
        return None
    except (ArithmeticError, ValueError, TypeError, NotImplementedError):
        return None
    return value if mpmath.isfinite(value) else None


# Computer algebra: LaTeX that our own grammar does not cover


def load_symbolic() -> Callable[..., tuple[str, str]]:
    """What a worker for computer algebra runs, with its libraries imported and their grammar warm."""
    logging.disable(logging.CRITICAL)
    for text in (r"\frac{\sqrt{2}}{2}+x^{2}", r"\{1,2\}\cup(0,1]", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"):
        decide_symbolically(text, text)
    return _symbolic


def _symbolic(task: str, gold: str, answer: str) -> tuple[str, str]:
    return decide_like_math_verify(gold, answer) if task == "math_verify" else decide_symbolically(gold, answer)


def decide_symbolically(gold: str, answer: str) -> tuple[str, str]:
    """The status and the rule for two texts in LaTeX, read by the grammar of latex2sympy2_extended."""
    import sympy

    left = _as_sympy(gold)
    if left is None:
        return "error", "bad_reference"
    right = _as_sympy(answer)
    if right is None:
        return "wrong", "unreadable"
    if type(left) is not type(right) and not (isinstance(left, sympy.Expr) and isinstance(right, sympy.Expr)):
        return "wrong", "sympy"
    if left == right:
        return "correct", "sympy"
    if not isinstance(left, sympy.Expr):
        return "wrong", "sympy"
    return ("correct" if sympy.simplify(left - right) == 0 else "wrong"), "sympy"


def _as_sympy(text: str) -> Any | None:
    """A sympy object with exact numbers; None for what cannot be read, has no value or was not worked out."""
    import sympy
    from latex2sympy2_extended import latex2sympy

    try:
        parsed = latex2sympy(text)
    except Exception:  # noqa: BLE001 - whatever its grammar raises, the text is not readable
        return None
    unfinished = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    if not isinstance(parsed, sympy.Basic) or parsed.has(sympy.nan, sympy.zoo, *unfinished):
        return None
    return parsed.xreplace({number: sympy.Rational(str(number)) for number in parsed.atoms(sympy.Float)})


def decide_like_math_verify(gold: str, completion: str) -> tuple[str, str]:
    """The status that Math-Verify gives, box first, sets and relations both ways."""
    import math_verify

    targets = [math_verify.LatexExtractionConfig(boxed_match_priority=0), math_verify.ExprExtractionConfig()]
    reference = math_verify.parse(f"\\boxed{{{gold}}}", targets, parsing_timeout=0)
    if not reference:
        return "error", "bad_reference"
    answer = math_verify.parse(completion, targets, parsing_timeout=0)
    if not answer:
        return "no_answer", "math_verify"
    same = math_verify.verify(reference, answer, allow_set_relation_comp=True, timeout_seconds=0)
    return ("correct" if same else "wrong"), "math_verify"
