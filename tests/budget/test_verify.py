from dataclasses import replace

import pytest

from reasoning.budget import check
from reasoning.prompts import ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason

EOS, OPEN, CLOSE = 0, 1, 2
SINGLE = ThinkMarkers((OPEN,), (CLOSE,))
THINK = tuple(range(10, 20))


@pytest.fixture(scope="module")
def rows(run):
    return run((*THINK, CLOSE, 60, EOS), (4, 12)).rows


def rebudget(row, budget: int):
    return replace(row, key=replace(row.key, budget=budget))


def test_honoured_budgets_pass(rows):
    assert check(rows[4], SINGLE, starts_open=True, max_answer_tokens=8) is None
    assert check(rows[12], SINGLE, starts_open=True, max_answer_tokens=8) is None


def test_more_thinking_than_the_budget(rows):
    message = "task task, sample 0, budget 3: 4 thinking tokens, 1 over the budget"
    assert check(rebudget(rows[4], 3), SINGLE, starts_open=True, max_answer_tokens=8) == message
    assert "10 thinking tokens, 2 over" in (
        check(rebudget(rows[12], 8), SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )


def test_thinking_hidden_from_the_spans_is_still_counted(rows):
    hidden = replace(rows[12], completion_ids=(*rows[12].completion_ids[:-1], OPEN, 70, 71, 72, CLOSE, EOS))
    assert "13 thinking tokens, 1 over the budget" in (
        check(hidden, SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )


def test_a_cut_that_wastes_budget(rows):
    assert "cut after 4 thinking tokens, 1 short of the budget" in (
        check(rebudget(rows[4], 5), SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )
    assert (
        check(rebudget(rows[4], NO_LIMIT), SINGLE, starts_open=True, max_answer_tokens=8) is None
    )  # cut by the context


def test_spans_and_answers_have_to_be_where_the_markers_are(rows):
    shifted = replace(rows[12], thinking=((1, 11),))
    assert "spans say 10 tokens, its ids say 10" in (
        check(shifted, SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )
    assert "answer begins at 10, its ids say 11" in (
        check(replace(rows[12], answer_start=10), SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )
    assert "answer begins at None" in (
        check(replace(rows[4], answer_start=None), SINGLE, starts_open=True, max_answer_tokens=8) or ""
    )
    assert check(rows[12], SINGLE, starts_open=False, max_answer_tokens=8) is not None  # the start matters


def test_words_of_the_closing_are_no_thinking_and_end_of_text_is_none(run):
    row = run((*THINK, CLOSE, 60, EOS), (4,), closing="w20 w21 </think> w22").rows[4]
    assert check(row, SINGLE, starts_open=True, max_answer_tokens=8) is None
    unclosed = run((*THINK, EOS), (10,)).rows[10]
    assert check(unclosed, SINGLE, starts_open=True, max_answer_tokens=8) is None
    assert (
        check(replace(unclosed, finish_reason=FinishReason.CUT), SINGLE, starts_open=True, max_answer_tokens=8)
        is not None
    )


def test_a_marker_is_not_made_of_the_thinking_and_the_closing(run):
    markers = ThinkMarkers((5,), (7, 8))
    row = run((10, 7, 11, 12), (2,), markers=markers, closing="w8 </think>").rows[2]
    assert row.completion_ids == (10, 7, 8, 7, 8, 50, EOS)
    assert check(row, markers, starts_open=True, max_answer_tokens=8) is None


def test_a_missing_sample_has_nothing_to_check(rows):
    missing = rebudget(replace(rows[12], finish_reason=FinishReason.ERROR), 0)
    assert check(missing, SINGLE, starts_open=True, max_answer_tokens=8) is None


def test_a_forced_answer_follows_a_cut_and_an_injected_marker(rows):
    def complaint(**changes) -> str:
        return check(replace(rows[4], **changes), SINGLE, starts_open=True, max_answer_tokens=8) or ""

    assert "its answer was forced, but its thinking was not cut" in complaint(bound=False)
    for injected in ((), ((3, 4),), ((5, 6),), ((4, 4),)):
        assert "its answer was forced, but no closing marker was injected for it" in complaint(injected=injected)


def test_an_answer_beyond_its_cap(rows, run):
    natural = "task task, sample 0, budget 12: an answer of 2 tokens, 1 over the cap"
    assert check(rows[12], SINGLE, starts_open=True, max_answer_tokens=2) is None
    assert check(rows[12], SINGLE, starts_open=True, max_answer_tokens=1) == natural
    worded = run((*THINK, CLOSE, 60, EOS), (4,), closing="w20 </think> w22 w23").rows[4]
    assert worded.answer_tokens == 4  # two of them injected
    assert check(worded, SINGLE, starts_open=True, max_answer_tokens=2) is None
    assert "an answer of 2 tokens, 1 over the cap" in (
        check(worded, SINGLE, starts_open=True, max_answer_tokens=1) or ""
    )


def test_a_policy_may_stop_before_the_budget_but_not_behind_it(rows):
    early = replace(rebudget(rows[4], 9), stopped=True)
    assert check(early, SINGLE, starts_open=True, max_answer_tokens=8) is None
    assert "short of the budget" in (check(rebudget(rows[4], 9), SINGLE, starts_open=True, max_answer_tokens=8) or "")
    late = replace(rebudget(rows[4], 3), stopped=True)
    assert "1 over the budget" in (check(late, SINGLE, starts_open=True, max_answer_tokens=8) or "")


@pytest.mark.parametrize("spans", [((0, 4), (4, 10)), ((0, 0), (0, 10)), ((0, 10), (10, 10))])
def test_spans_count_by_the_ids_in_them(rows, spans):
    assert check(replace(rows[12], thinking=spans), SINGLE, starts_open=True, max_answer_tokens=8) is None
    wrong = replace(rows[12], thinking=((0, 4), (2, 10)))
    assert "spans say 12 tokens, its ids say 10" in (check(wrong, SINGLE, starts_open=True, max_answer_tokens=8) or "")
