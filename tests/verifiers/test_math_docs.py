"""Every example in docs/math.md is graded, and says what the page says."""

import re
from pathlib import Path

import pytest

from verifiers import close, grade
from verifiers.policy import PRESETS

PAGE = Path(__file__).parents[2] / "docs" / "math.md"
WROTE, REFERENCE, ANSWER, VERDICT = "what the model wrote", "reference", "answer", "verdict"


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    close()


def tables():
    """The tables of the page as lists of rows, each a mapping from heading to cell without its backticks."""
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        headings, _, *rows = [
            [cell.strip().strip("`") for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()
        ]
        assert all(len(row) == len(headings) for row in rows), block
        yield [dict(zip(headings, row, strict=True)) for row in rows]


def examples():
    """(policy, what was written, reference, what the page says of the status)."""
    for rows in tables():
        for row in rows:
            if VERDICT in row:
                written = row[WROTE] if WROTE in row else f"So it is $\\boxed{{{row[ANSWER]}}}$."
                yield "eval", written, row[REFERENCE], row[VERDICT].replace(" ", "_")
            elif "eval" in row:
                yield from ((policy, row[WROTE], row[REFERENCE], row[policy]) for policy in PRESETS)


def test_the_page_has_examples_of_every_policy_and_status():
    found = list(examples())
    assert len(found) > 80
    assert {policy for policy, *_ in found} == set(PRESETS)
    assert {said for *_, said in found} == {"correct", "wrong", "no_answer", "error", "yes", "no"}


@pytest.mark.parametrize(("policy", "written", "reference", "said"), list(examples()))
def test_an_example_is_graded_as_the_page_says(policy, written, reference, said):
    status = grade("math", written, reference, {"policy": policy}).status.value
    assert ("yes" if status == "correct" else "no") == said if said in ("yes", "no") else status == said


def test_the_page_names_every_preset_and_status():
    text = PAGE.read_text(encoding="utf-8")
    assert {f"`{name}`" for name in (*PRESETS, "timeout")} <= set(re.findall(r"`[a-z_]+`", text))
