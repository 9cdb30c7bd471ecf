"""Pairs by kind, in both orders: the kinds in which other graders fail, with the right value."""

from pathlib import Path

import pytest

from verifiers import close, grade
from verifiers.base import Status

PAIRS = Path(__file__).with_name("cases") / "pairs.txt"


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    close()


def pairs():
    kind = ""
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            kind = line.strip("[]") if " | " not in line else kind
        if " | " in line and not line.startswith("#  ") and not line.startswith("# ref"):
            reference, answer = line[:-4].split(" | ", 1)
            yield kind, reference, answer, line.endswith("1")


KINDS = sorted({kind for kind, *_ in pairs()})


def is_correct(answer, reference):
    return grade("math", f"so $\\boxed{{{answer}}}$.", reference, {}).status == Status.CORRECT


@pytest.mark.parametrize("kind", KINDS)
def test_pairs(kind):
    wrong = [pair for pair in pairs() if pair[0] == kind and is_correct(pair[2], pair[1]) != pair[3]]
    assert wrong == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"gold_format", "one_way"}))
def test_pairs_the_other_way_round(kind):
    """A comparison is symmetric, except for the kind one_way; quotes and boxes around a reference are not read in an
    answer."""
    wrong = [pair for pair in pairs() if pair[0] == kind and is_correct(pair[1], pair[2]) != pair[3]]
    assert wrong == []


def test_there_are_many():
    assert len(list(pairs())) > 600
    assert len(KINDS) > 30
