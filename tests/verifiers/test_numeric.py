"""One number against one number."""

import pytest

from verifiers.base import Status
from verifiers.numeric import verify_numeric


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        (r"\boxed{18}", "18", Status.CORRECT),
        ("#### 1,500", "1500", Status.CORRECT),
        ("Answer: 3 + 15 = 18 dollars", "18", Status.CORRECT),
        (r"\boxed{x = 18 \text{ eggs}}", "18", Status.CORRECT),
        ("She makes $18 every day.", "18", Status.CORRECT),
        ("First 3, then -10", "-10", Status.CORRECT),
        ("He keeps 45%", r"45\%", Status.CORRECT),
        (r"\boxed{18 \text{ or } 19}", "18", Status.WRONG),
        (r"\boxed{1}\boxed{2}\boxed{3}", "3", Status.WRONG),
        (r"\boxed{17}", "18", Status.WRONG),
        (r"\boxed{}", "18", Status.WRONG),
        (r"\boxed{x}", "18", Status.WRONG),
        (r"18, so \boxed{18", "18", Status.NO_ANSWER),
        ("none", "18", Status.NO_ANSWER),
        ("<think>18", "18", Status.NO_ANSWER),
        (r"\boxed{many}", "many", Status.ERROR),
        (r"\boxed{x}", "x", Status.ERROR),
    ],
)
def test_numeric_verifier(answer, reference, expected):
    assert verify_numeric(answer, reference, {}).status == expected


def test_the_last_number_is_where_the_span_says():
    verdict = verify_numeric("<think>7</think> 3 then 18 left", "18", {})
    assert (verdict.extracted, verdict.span) == ("18", (24, 26))
