"""Properties that hold for every expression: symmetry, indifference to spelling, and a verdict for any text."""

import time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from verifiers import close, grade
from verifiers.base import Status
from verifiers.mathematics.normal import normalise
from verifiers.mathematics.reading import read

SETTINGS = settings(deadline=None, max_examples=150)


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    close()


def status(answer, reference):
    return grade("math", f"\\boxed{{{answer}}}", reference, {}).status


numbers = st.integers(-50, 50).map(str) | st.sampled_from(
    ["0.5", "2.25", "1,500", r"\frac{2}{7}", r"4\frac23", r"0.\overline{4}"]
)
atoms = numbers | st.sampled_from(["x", "y", r"\pi", r"\sqrt{2}", r"\sqrt{12}", "i", "e"])
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", r" \cdot "]), inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: rf"\frac{{{pair[0]}}}{{{pair[1]}}}"),
        inner.map(lambda text: f"({text})^2"),
    ),
    max_leaves=5,
)
wholes = st.one_of(
    expressions,
    st.lists(expressions, min_size=2, max_size=3).map(", ".join),
    st.lists(expressions, min_size=2, max_size=3).map(lambda items: "(" + ", ".join(items) + ")"),
    st.lists(expressions, min_size=1, max_size=3).map(lambda items: r"\{" + ", ".join(items) + r"\}"),
    st.tuples(st.sampled_from("(["), numbers, numbers, st.sampled_from(")]")).map(
        lambda t: f"{t[0]}{t[1]}, {t[2]}{t[3]}"
    ),
    expressions.map(lambda text: f"x = {text}"),
    st.tuples(numbers, st.sampled_from([r"\%", r"^\circ", r" \text{ cm}", r" \text{ m}", " apples"])).map("".join),
    st.sampled_from(
        ["B", r"\text{(B)}", r"\text{even}", "143_6", "5:2", "10:15", r"\infty", r"\$15", r"\pm 3", r"\text{DNE}"]
    ),
)


def is_readable(text):
    return read(text).is_readable


@SETTINGS
@given(wholes, wholes)
def test_symmetry(a, b):
    assume(is_readable(a) and is_readable(b))
    assume(("%" in a) == ("%" in b))  # a percent sign on one side counts by which side it is
    assert status(a, b) == status(b, a)


@SETTINGS
@given(wholes)
@example(r"x = \frac{1}{x - x}")
def test_what_can_be_read_equals_itself_in_any_spelling(text):
    assume(is_readable(text))
    spellings = [
        f"${text}$",
        rf"\({text}\)",
        f" {text} ",
        text + ".",
        text.replace(r"\frac", r"\dfrac"),
        text.replace("(", r"\left(").replace(")", r"\right)"),
        text.replace("[", r"\left[").replace("]", r"\right]") if "[" in text else text,
        rf"\displaystyle {text}",
        text.replace("-", "−"),
        text.replace("1", "１"),
        text + "\u200b",
        text.replace("+", " + ").replace(",", r",\,") if r"1,500" not in text else text,
    ]
    assert {spelling: status(spelling, text) for spelling in spellings} == dict.fromkeys(spellings, Status.CORRECT)


@SETTINGS
@given(expressions, st.sampled_from(["+1", r" \cdot 2 + 1", r"+\frac{1}{1000000007}"]))
def test_something_else_is_never_equal(text, change):
    assume(is_readable(text) and is_readable(f"({text}){change}"))
    assume(change != r" \cdot 2 + 1" or status(f"({text})+1", "0") != Status.CORRECT)
    assert status(f"({text}){change}", text) != Status.CORRECT


@SETTINGS
@given(st.text(max_size=60) | st.text(alphabet="0123456789.,-+*/^_{}()[]|\\\\ abxyie=<>%$!&;:'", max_size=60))
@example("\\")
@example("\x00")
def test_any_text_gets_a_verdict_quickly(text):
    started = time.perf_counter()
    verdict = grade("math", f"\\boxed{{{text}}}", "7", {})
    other = grade("math", r"\boxed{7}", text, {})
    assert time.perf_counter() - started < 4  # two verdicts, on a busy machine, perhaps with a worker to start
    assert "Error" not in verdict.detail
    assert "Error" not in other.detail


@SETTINGS
@given(wholes)
def test_one_spelling_is_a_fixed_point(text):
    assert normalise(normalise(text)) == normalise(text)
