import pytest

from reasoning.budget import BudgetController, Sampling, Waits, check_room, thinking_room
from reasoning.budget.room import most_steps
from reasoning.budgets import BudgetError
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers
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


def test_the_most_steps_are_the_longest_request_unless_requests_queue():
    assert most_steps([], [], 4) == 0
    assert most_steps([30, 7, 9], [8], 4) == 30
    assert most_steps([30, 7, 9, 2], [8], 4) == 30 + 7  # (7 + 9 + 2 + 8) / 4, rounded up
    assert most_steps([30, 7, 9], [8, 8], 1) == 62  # one after another


@pytest.mark.parametrize(("samples", "first"), [(1, 18), (10, 18 + 81)])
@pytest.mark.parametrize("script", [(9,) * 99, (9, 9, 9, 2, 9, 0), (2, *(9,) * 99)])
def test_no_run_takes_more_than_the_most_steps(tokenizer, samples, first, script):
    """Thinking without end, a short one, an answer without end; ten samples in four places have to queue."""
    engine = ScriptedEngine(lambda request: script if request.stream else (9,) * 99, 1000, max_running=4)
    controller = BudgetController(
        engine, tokenizer, SINGLE, Closing("bare", "</think>"), (2, 5, 9),
        max_answer_tokens=8, stop_ids=(0,), sampling=Sampling(), seed=0, waits=Waits(), concurrency=4,
    )  # fmt: skip
    for sample in range(samples):
        controller.submit("task", sample, Rendered((900,), True))
    bounds = [controller.most_steps_left]
    while controller.unfinished:
        controller.step()
        bounds.append(controller.most_steps_left)
    assert (bounds[0], bounds[-1]) == (first, 0)
    assert all(bound >= left for left, bound in enumerate(reversed(bounds)))
