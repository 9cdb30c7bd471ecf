"""Which text is the answer."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.extract import after_thinking, find_answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so $\boxed{7}$", "7"),
        (r"\boxed{\frac{\left(1\right)}{\{2\}}}", r"\frac{\left(1\right)}{\{2\}}"),
        (r"\boxed{\boxed{30}}", "30"),
        (r"\boxed{x = \boxed{30}}", "x = {30}"),
        (r"\fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        (r"\boxed 3.", "3"),
        (r"\boxed{1} was wrong. Now \boxed{2}", "2"),
        (r"\boxed{4}? No: \boxed{5}", "5"),
        (r"$\boxed{2}$ and $\boxed{8}$.", "2, 8"),
        (r"\boxed{4}, i.e. the answer is \boxed{4}", "4"),
        (r"\boxed{}", ""),
        (r"the brace { stays open, \boxed{9}", "9"),
        ("The answer is 84.", "84"),
        ("The answer is $3$ or $4$.", "3 or 4"),
        ("The answer is 3.5, because it is.", "3.5"),
        ("the answer to 2+2 is 4", "4"),
        ("**Answer:** 4.", "4"),
        ("Answer: 3\nAnswer: 4", "4"),
        ("**Final Answer**\n\n84", "84"),
        ("The answer is\n\\[\n84\n\\]", "84"),
        ("Total: 1500\n#### 1,500", "1,500"),
        ("<answer> x=4 </answer> and so on 5", "x=4"),
        (r"<answer>1</answer> then <answer>it is \boxed{2}</answer>", "2"),
        ("<think>\\boxed{1}</think> The answer is 2", "2"),
    ],
)
def test_found(text, expected):
    found = find_answer(text)
    assert (found.text, found.problem) == (expected, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "We still have 3 cases to treat.",
        "This shows that the answer is not 9.",
        r"earlier \boxed{3}, finally \boxed{4",
        r"the answer is 7, that is \boxed{",
        "<think>It might be \\boxed{20}.",
        "</think> done <think> the answer is 4",
        "The answer is",
    ],
)
def test_no_answer(text):
    assert find_answer(text).text is None
    assert find_answer(text).problem


@pytest.mark.parametrize("gap", [" ", ", ", " and ", "\n- B: "])
def test_three_boxes_side_by_side_match_nothing(gap):
    assert "side by side" in find_answer(gap.join([r"\boxed{1}", r"\boxed{2}", r"\boxed{3}"])).problem


def test_after_thinking():
    assert after_thinking("a</think>b") == "b"
    assert after_thinking("plain") == "plain"
    assert after_thinking("<think>open") is None


@settings(deadline=None)
@given(st.text(alphabet="ab {}\\boxedanswer is:#<>/.\n*$"))
def test_any_text_can_be_searched_and_only_its_own_words_come_back(text):
    found = find_answer(text)
    assert found.text is None or found.text in text


@settings(deadline=None)
@given(
    st.recursive(
        st.text("xy1+ ", max_size=4), lambda inner: inner.map("{{{}}}".format) | st.tuples(inner, inner).map("".join)
    )
)
def test_balanced_content_comes_back_whole(content):
    assert find_answer(f"First. \\boxed{{{content}}} Done.").text == content.strip()


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 30_000,
        "\\boxed{a" * 30_000 + "}" * 30_000,
        "\\boxed{1} " * 20_000,
        "\\boxed " * 40_000,
        "answer is " * 20_000,
        "answer" + " " * 200_000,
        "answer to " * 20_000,
        "<answer>" * 40_000,
        "\n" * 200_000,
        "{" * 200_000,
    ],
)
def test_long_texts_take_linear_time(text):
    started = time.process_time()
    find_answer(text)
    assert time.process_time() - started < 1.5
