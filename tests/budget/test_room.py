import pytest

from reasoning.budget import check_room, thinking_room
from reasoning.budgets import BudgetError
from reasoning.prompts import Rendered, ThinkMarkers
from reasoning.types import NO_LIMIT

SINGLE = ThinkMarkers((1,), (2,))


@pytest.mark.parametrize(
    ("markers", "starts_open", "closing", "room"),
    [
        (SINGLE, True, (2,), 100 - 10 - 1 - 20),
        (SINGLE, True, (7, 8, 2, 9), 100 - 10 - 4 - 20),
        (SINGLE, True, (), 100 - 10 - 1 - 20),
        (SINGLE, False, (2,), 100 - 10 - 2 - 20),
        (ThinkMarkers((1, 3), (2, 4, 5)), False, (2, 4, 5), 100 - 10 - 5 - 20 - 2),
    ],
)
def test_room_is_what_prompt_markers_closing_and_answer_leave(markers, starts_open, closing, room: int):
    assert thinking_room(100, Rendered((9,) * 10, starts_open), markers, closing, 20) == room


def test_budgets_that_fit_pass_and_others_name_the_largest_possible():
    check_room((0, 64, 69, NO_LIMIT), 69, 100)
    with pytest.raises(BudgetError) as error:
        check_room((64, 70, 50_000, NO_LIMIT), 69, 100)
    assert "a budget of 50k does not fit" in str(error.value)
    assert "the context of 100 tokens has room for 69 thinking tokens" in str(error.value)
    assert "write at most 69, or none" in str(error.value)


@pytest.mark.parametrize("budget", [0, 64, NO_LIMIT])
def test_a_prompt_that_fills_the_context_leaves_nothing(budget: int):
    with pytest.raises(BudgetError, match=r"lower --max-answer-tokens"):
        check_room((budget,), -1, 100)
