"""Graded cases: whole completions with the verdict that the grading policy gives them.

A note that starts with [policy] marks a label that depends on a rule someone may set otherwise. The others are beyond
dispute, so every one of them must come out right.
"""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from verifiers import close
from verifiers.base import Status
from verifiers.extract import find_answer
from verifiers.math import verify_math

OWN = Path(__file__).parent / "cases" / "math.jsonl"
DEVELOPMENT = Path(__file__).parents[2] / ".." / "shared" / "cases" / "math_cases_dev.jsonl"
CANARY = Path("/tmp/mathvcanary")
"""What the payloads in the cases try to create."""
MOST_SECONDS = 1.0
SLOWDOWN_ALLOWED = 3.0
"""Wall time on a machine that runs other work too; a hung case takes its whole deadline, which is longer."""


@pytest.fixture(scope="module", autouse=True)
def _warm_workers():
    verify_math(r"\boxed{(x+1)^2}", "x^2+2x+1", {})
    yield
    close()


def read(path):
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", [OWN, DEVELOPMENT], ids=["own", "development"])
def test_graded_cases(path):
    cases = read(path)
    CANARY.unlink(missing_ok=True)
    wrong, slow, executed = [], {}, []
    for case in cases:
        started = time.perf_counter()
        verdict = verify_math(case["completion"], case["gold"], {"policy": "reward"})
        seconds = time.perf_counter() - started
        if (verdict.status == Status.CORRECT) != case["expected"]:
            wrong.append(case)
        if seconds > MOST_SECONDS * SLOWDOWN_ALLOWED:
            slow[case["id"]] = round(seconds, 2)
        if CANARY.exists():
            executed.append(case["id"])
            CANARY.unlink()
    assert executed == []
    assert slow == {}
    assert [case["id"] for case in wrong if not case["note"].startswith("[policy]")] == []
    assert len(wrong) <= 0.03 * len(cases), [case["id"] for case in wrong]


def test_reference_and_answer_exchanged_get_a_verdict():
    """Whatever an answer holds, as a reference it is read or reported, and raises nothing."""
    for case in [case for case in read(OWN) if len(case["completion"]) < 1000][::3]:
        reference = find_answer(case["completion"]).text or case["completion"]
        verdict = verify_math(f"\\boxed{{{case['gold']}}}", reference, {"policy": "reward"})
        assert verdict.status in Status


BOMBS = {
    "tower": "9^{9^{9^{9^{9}}}}",
    "power_tower_program": "9**9**9**9",
    "factorials": "((10^9)!)!",
    "factorial_tower": "(((9!)!)!)!",
    "binomial": r"\binom{10^9}{10^8}",
    "sum": r"\sum_{k=1}^{10^9} \frac{1}{k^2}",
    "integral": r"\int_0^1 x^x dx",
    "limit": r"\lim_{x\to 0}\frac{\sin x - x}{x^3}",
    "round_brackets": "(" * 100_000 + "1" + ")" * 100_000,
    "braces": "{" * 100_000 + "1" + "}" * 100_000,
    "set_brackets": r"\{" * 50_000 + "1" + r"\}" * 50_000,
    "open_brackets": "(" * 100_000,
    "fractions": r"\frac{1}{1+" * 5_000 + "1" + "}" * 5_000,
    "roots": r"\sqrt{2+" * 60 + "2" + "}" * 60,
    "exponents": "2^{" * 20_000 + "2" + "}" * 20_000,
    "expansion": "(x+y+z+w)^{500}",
    "long_sum": "+".join(f"x_{{{i}}}" for i in range(3_000)),
    "digits": "7" * 1_000_000,
    "exponent_notation": "1e999999999",
    "list": ",".join(map(str, range(50_000))),
    "plus_minus": "1" + r"\pm \sqrt{2}" * 25,
    "union": r"\cup".join(f"[{i},{i}.5]" for i in range(2_000)),
    "determinant": r"\begin{vmatrix}"
    + r"\\".join("&".join(f"x_{{{i}{j}}}" for j in range(9)) for i in range(9))
    + r"\end{vmatrix}",
    "matrix_power": r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{100000000}",
    "combining": "5" + "\u0305" * 50_000,
    "nul": "\0" * 100_000 + "6",
    "units": r"6 \text{ " + "m " * 50_000 + "}",
    "signs": "-" * 50_001 + "5",
    "quotients": "1/" * 5_000 + "1",
    "macro": r"\def\a{\a\a}\a",
    "memory": "[0]*10**12",
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("place", ["answer", "reference", "part", "anchor"])
def test_bombs_are_decided_in_time(name, place):
    bomb = BOMBS[name]
    completion, reference = {
        "answer": (f"\\boxed{{{bomb}}}", r"x^2+\sqrt{2}"),
        "reference": (r"\boxed{5}", bomb),
        "part": (f"\\boxed{{(1, {bomb})}}", "(1,2)"),
        "anchor": (f"The answer is {bomb}", "5"),
    }[place]
    started = time.perf_counter()
    verdict = verify_math(completion, reference, {"policy": "reward"})
    assert time.perf_counter() - started < MOST_SECONDS * SLOWDOWN_ALLOWED
    assert verdict.status != Status.CORRECT


@pytest.mark.parametrize(
    "filler",
    [
        r"\boxed{1} ", r"\boxed{", r"\boxed{1} and ", r"\boxed 5", r"\fbox", "the answer is 5. ", "####", "#### 5\n",
        "<think>", "</think>", "<answer>", "<|channel|>analysis<|message|>a<|end|>", "<|im_end|>", "Human: ", "<!--",
        "% ", "{", "\\", "$", " ", "\n", "\0", "option is ", "(",
    ],
)  # fmt: skip
def test_a_megabyte_of_text_is_searched_in_time(filler):
    text = filler * (1_000_000 // len(filler))
    for end in ("", "\nThe answer is 6."):
        started = time.perf_counter()
        verdict = verify_math(text + end, "7", {"policy": "reward"})
        assert time.perf_counter() - started < MOST_SECONDS * SLOWDOWN_ALLOWED
        assert verdict.status != Status.CORRECT


def test_own_cases_are_well_formed():
    cases = read(OWN)
    assert max(Counter(case["id"] for case in cases).values()) == 1
    assert max(Counter((case["gold"], case["completion"]) for case in cases).values()) == 1
    assert all(set(case) == {"id", "kind", "gold", "completion", "expected", "note"} for case in cases)
    rewarded = sum(case["expected"] for case in cases)
    assert 0.4 < rewarded / len(cases) < 0.6
