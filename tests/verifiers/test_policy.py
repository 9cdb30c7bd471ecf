"""Policies as data."""

from dataclasses import fields, replace

import pytest

from verifiers import grade
from verifiers.base import Status
from verifiers.policy import PRESETS, Policy, policy_named


def test_presets():
    assert {"reward", "eval", "minerva", "math_verify_compat"} <= set(PRESETS)
    with pytest.raises(ValueError, match="choose one of"):
        policy_named("strict")


def test_the_hash_changes_with_every_setting():
    other = {"engine": "math_verify", "anchors": "final", "significant_digits": 4, "units": "ignore"}
    hashes = {Policy().hash}
    for field in fields(Policy):
        changed = other.get(field.name, not getattr(Policy(), field.name))
        hashes.add(replace(Policy(), **{field.name: changed}).hash)
    assert len(hashes) == 1 + len(fields(Policy))
    assert all(len(value) == 8 for value in hashes)


def test_the_hash_of_the_grading_policy_is_known():
    """Stored results carry it: it may only change together with the meaning of a setting."""
    assert Policy().hash == PRESETS["eval"].hash == "1c98511e"


@pytest.mark.parametrize(
    ("policy", "answer", "reference", "expected"),
    [
        ("eval", r"\boxed{6 \text{ g}}", r"6 \text{ kg}", Status.WRONG),
        ("minerva", r"\boxed{6 \text{ g}}", r"6 \text{ kg}", Status.CORRECT),
        ("eval", r"\boxed{0.286}", r"\frac27", Status.WRONG),
        ("minerva", r"Final answer: The final answer is $0.286$", r"\frac27", Status.CORRECT),
        ("minerva", r"The answer is 7", "7", Status.NO_ANSWER),
        ("eval", r"The answer is 7", "7", Status.CORRECT),
        ("eval", r"\boxed{x - 11 = 0}", "x = 11", Status.WRONG),
        ("minerva", r"\boxed{x - 11 = 0}", "x = 11", Status.CORRECT),
    ],
)
def test_policies_differ_where_they_say(policy, answer, reference, expected):
    assert grade("math", answer, reference, {"policy": policy}).status == expected
