"""Mathematical answers, through real worker processes."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from verifiers import close, grade
from verifiers.base import Status

ROOT = Path(__file__).parents[2]
SHARED = ROOT / ".." / "shared"


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    close()


def status(answer, reference):
    return grade("math", answer, reference, {}).status


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (r"\frac{11}{4}", r"\boxed{\frac{\left(11\right)}{\left(4\right)}}"),
        ("30", r"\boxed{\boxed{30}}"),
        ("17", r"$\boxed{16}$. But zero counts: $\boxed{17}$"),
        ("84", "7 * 12 = 84. The answer is 84."),
        (r"5\sqrt{2}", r"\boxed{\sqrt{50}}"),
        (r"\frac{4}{9}", r"\boxed{0.\overline{4}}"),
        ("(x-1)(x+4)", r"\boxed{x^2+3x-4}"),
        (r"\cos 2x", r"\boxed{1 - 2\sin^2 x}"),
        (r"\ln 6", r"\boxed{\ln 2 + \ln 3}"),
        (r"\{1,4,6\}", r"\boxed{\{6,1,4\}}"),
        ("0, 4", r"\boxed{x=4 or x=0}"),
        (r"1 \pm \sqrt{2}", r"\boxed{1-\sqrt{2}, 1+\sqrt{2}}"),
        ("(-1, 4]", r"\boxed{-1 < x \le 4}"),
        ("x - 2y + 6 = 0", r"\boxed{y = \frac{x}{2} + 3}"),
        (r"\begin{pmatrix} 0 & 1 \\ 5 & 2 \end{pmatrix}", r"\boxed{\begin{bmatrix} 0 & 1 \\ 5 & 2 \end{bmatrix}}"),
        ("3\\pi", r"\boxed{9.42477796}"),
        (r"300!", r"\boxed{300 \cdot 299!}"),
        (r"\text{isosceles}", r"\boxed{isosceles}"),
        (r"\text{(C)}", r"\boxed{C}"),
        ("2", r"\boxed{\log_3 9}"),
        ("No", r"\boxed{\text{no}}"),
        ("ab", r"\boxed{ba}"),
        (r"$\boxed{\frac{7}{9}}$", r"\boxed{\frac79}"),
        ("12", r"\boxed{3 \cdot 4 = 12}"),
    ],
)
def test_right(reference, answer):
    assert status(answer, reference) == Status.CORRECT


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("16", r"$\boxed{16}$. But zero counts: $\boxed{17}$"),
        ("8", r"$\boxed{2}$ and $\boxed{8}$"),
        ("4", r"\boxed{0 \text{ or } 4}"),
        ("4", r"\boxed{}"),
        ("4", r"\boxed{\mathbb{R}}"),
        ("4", r"\boxed{\text{correct}}"),
        ("12", r"\boxed{10} \boxed{11} \boxed{12}"),
        ("3\\pi", r"\boxed{9.42}"),
        (r"\frac{2}{7}", r"\boxed{0.29}"),
        (r"1.6\times10^{-19}", r"\boxed{1.6\times10^{-18}}"),
        (r"\sqrt{2} \times10^{-19}", r"\boxed{\sqrt{2} \times10^{-18}}"),
        ("2^{1000000}", r"\boxed{2^{1000000}+1}"),
        ("(0,-2)", r"\boxed{(-2,0)}"),
        ("[0,3)", r"\boxed{[0,3]}"),
        ("x > 2", r"\boxed{3x > 6}"),
        ("11", r"\boxed{2x - 3 = 19}"),
        ("3", r"\boxed{3 = 4}"),
        ("2", r"\boxed{\int_0^2 x\,dx}"),
        ("2a+1", r"\boxed{2b+1}"),
        ("8d", r"\boxed{8}"),
        (r"6 \text{ kg}", r"\boxed{6 \text{ g}}"),
        (r"\begin{pmatrix} 0 & 1 \\ 5 & 2 \end{pmatrix}", r"\boxed{\begin{pmatrix} 0 & 5 \\ 1 & 2 \end{pmatrix}}"),
        (r"\text{odd}", r"\boxed{\text{even}}"),
        ("No", r"\boxed{on}"),
        ("5", r"\boxed{\frac{5}{0}}"),
        ("5", r"\boxed{" + "(" * 60 + "5" + ")" * 60 + "}"),
        ("5", r"\boxed{5" + "+0" * 2000 + "}"),
    ],
)
def test_wrong(reference, answer):
    assert status(answer, reference) == Status.WRONG


@pytest.mark.parametrize(
    "answer", ["We still have 4 cases.", "the answer is not 4", r"\boxed{4", "<think>\\boxed{4}", ""]
)
def test_no_answer(answer):
    assert status(answer, "4") == Status.NO_ANSWER


@pytest.mark.parametrize("reference", ["", "  ", "$$", r"\frac{", r"\frac{1}{0}", "+", "1" * 3000])
def test_an_unreadable_reference_is_never_rewarded(reference):
    assert status(f"\\boxed{{{reference}}}", reference) != Status.CORRECT
    assert status(r"\boxed{4}", reference) == Status.ERROR


def test_text_is_never_executed(tmp_path):
    canary = tmp_path / "canary"
    for payload in (
        f"__import__('pathlib').Path('{canary}').touch() or 6",
        f"open('{canary}', 'w')",
        f"(lambda: __import__('os').system('touch {canary}'))() or 6",
        f"\\text{{__import__('os').system('touch {canary}')}}",
    ):
        for wrapped in (f"\\boxed{{{payload}}}", f"The answer is {payload}"):
            assert status(wrapped, "6") != Status.CORRECT
            assert status(r"\boxed{6}", payload) != Status.CORRECT
    assert not canary.exists()


def test_a_hanging_expression_times_out_and_others_go_on():
    hanging = r"\boxed{10^{10^{10}} - 10^{10^{10}} + 5}"
    with ThreadPoolExecutor(4) as threads:
        slow = threads.submit(grade, "math", hanging, "5", {})
        quick = list(threads.map(lambda n: status(f"\\boxed{{\\sqrt{{{n * n}}}}}", str(n)), range(1, 30)))
        verdict = slow.result()
    assert quick == [Status.CORRECT] * 29
    assert verdict.status == Status.TIMEOUT
    assert verdict.seconds == pytest.approx(5, abs=1)
    assert status(r"\boxed{\sqrt{9}}", "3") == Status.CORRECT


def test_grade_turns_every_failure_into_a_verdict():
    verdict = grade("nonsense", "1", "1", {})
    assert verdict.status == Status.ERROR
    assert "nonsense" in verdict.detail
    assert grade("countdown", "1", "1", {"numbers": [object()]}).status == Status.ERROR


def test_grade_fills_seconds():
    assert 0 < grade("math", r"\boxed{4}", "4", {}).seconds < 1


def test_importing_the_verifiers_is_light():
    heavy = {"sympy", "math_verify", "torch", "pyarrow", "datasets"}
    code = f"import sys, verifiers, reasoning.tasks; print(*{heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def read(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["gsm8k_test", "math500", "aime24", "aime25", "amc23"])
def test_every_reference_equals_itself(name):
    records = read(f"data/math/{name}.jsonl")[:: 4 if name == "math500" else 1]
    failed = [r["answer"] for r in records if status(f"So $\\boxed{{{r['answer']}}}$.", r["answer"]) != Status.CORRECT]
    assert failed == []


def test_the_development_cases():
    cases = read("cases/math_cases_dev.jsonl")
    started = time.monotonic()
    wrong = [c["id"] for c in cases if (status(c["completion"], c["gold"]) == Status.CORRECT) != c["expected"]]
    assert set(wrong) <= {"d-units-04"}  # quantities in convertible units
    assert time.monotonic() - started < 60
