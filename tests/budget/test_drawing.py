"""Which samples of a task are drawn: rounds ask for no sample that drawing one by one would have saved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning.budget import BudgetController, Sampling, Waits, check
from reasoning.budget.drawing import (
    Adaptive,
    AdaptiveShare,
    Allocation,
    BetaStop,
    Draw,
    Drawn,
    Filter,
    confidence_bar,
    owed_draws,
    surely_drawn,
)
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason

RULES = st.one_of(
    st.builds(AdaptiveShare, st.floats(0.1, 1.0)), st.builds(BetaStop, st.sampled_from([0.5, 0.7, 0.9, 0.95, 0.99]))
)
LABELS = st.lists(st.sampled_from(["x", "y", "z", None]), min_size=1, max_size=20)


def one_by_one(rule, labels):
    """How many samples are drawn by asking the rule after each."""
    return next((count for count in range(1, len(labels)) if rule(labels[:count])), len(labels))


@settings(deadline=None)  # the first call imports scipy
@given(RULES, LABELS)
def test_rounds_draw_what_drawing_one_by_one_draws(rule, labels):
    policy = Adaptive(rule, 100, len(labels))
    drawn = []
    while more := policy.next_round("a", drawn):
        assert [draw.number for draw in more] == list(range(len(drawn), len(drawn) + len(more)))
        drawn += [Drawn(labels[draw.number]) for draw in more]
    assert len(drawn) == one_by_one(rule, labels)


@settings(deadline=None)
@given(RULES, LABELS, st.data())
def test_the_order_in_which_samples_finish_changes_nothing(rule, labels, data):
    """Nor does a run that was interrupted anywhere: what it owes follows from what is there."""
    policy, finished = Adaptive(rule, 100, len(labels)), {}
    while owed := owed_draws(policy, "a", finished):
        draw = data.draw(st.sampled_from(owed))
        finished[draw.number] = Drawn(labels[draw.number])
    assert sorted(finished) == list(range(one_by_one(rule, labels)))


def test_rounds_by_hand():
    assert surely_drawn(AdaptiveShare(0.75), [], 16) == 2
    assert surely_drawn(AdaptiveShare(0.75), ["x", "y"], 16) == 2  # at four, three may agree
    assert surely_drawn(AdaptiveShare(0.75), ["x", "x"], 16) == 0
    assert surely_drawn(AdaptiveShare(0.75), ["x", "y"], 3) == 1
    assert surely_drawn(BetaStop(0.95), [], 16) == 4
    assert surely_drawn(BetaStop(0.95), ["x", "x", "x", "y"], 16) == 3  # 6 : 1 leads with 0.965, 5 : 1 with 0.94
    assert surely_drawn(BetaStop(0.95), [None] * 4, 16) == 4


def test_a_filter_waits_for_its_warm_up():
    policy = Filter(keep=0.5, warmup=2, budget=100, samples=4)
    warm = {0: Drawn("x", -0.2), 1: Drawn("x", -0.5)}
    assert owed_draws(policy, "a", {}) == [Draw(0, 100), Draw(1, 100)]
    assert owed_draws(policy, "a", {1: warm[1]}) == [Draw(0, 100)]
    assert owed_draws(policy, "a", warm) == [Draw(2, 100, -0.2), Draw(3, 100, -0.2)]
    assert owed_draws(policy, "a", warm | {3: Drawn(None, -0.9)}) == [Draw(2, 100, -0.2)]
    assert owed_draws(policy, "a", warm | {2: Drawn("x", -9.0), 3: Drawn("x", -9.0)}) == []
    assert confidence_bar([None, None], 0.5) == -math.inf
    assert confidence_bar([-3.0, -1.0, None, -2.0], 0.5) == -2.0  # two of three reach it


def test_an_allocation_is_drawn_at_once():
    policy = Allocation({"a": (100, 2), "b": (200, 1)})
    assert owed_draws(policy, "a", {}) == [Draw(0, 100), Draw(1, 100)]
    assert owed_draws(policy, "b", {0: Drawn(None)}) == []
    assert (policy.most("a"), policy.most("b")) == (2, 1)


EOS, CLOSE = 0, 2
MARKERS = ThinkMarkers((1,), (CLOSE,))


@pytest.fixture
def with_bar(tokenizer, drain):
    """The row of one sample whose log-probabilities fall by a tenth a token, under a bar; it thinks for 30 tokens."""

    def run(bar, *, chunk=1, budgets=(4, 8, 16, NO_LIMIT), owed=None):
        def script(request):
            ids = (*range(10, 40), CLOSE, 60, EOS) if request.stream else (50, EOS)
            return ids + (999,) * max(request.max_tokens - len(ids), 0)

        engine = ScriptedEngine(script, 200, block_size=4, step_tokens=chunk, logprob=lambda _, place: -place / 10)
        controller = BudgetController(
            engine,
            tokenizer,
            MARKERS,
            Closing("test", "</think>"),
            budgets,
            max_answer_tokens=8,
            stop_ids=(EOS,),
            sampling=Sampling(),
            seed=1,
            waits=Waits(),
            concurrency=4,
        )
        controller.submit("task", 0, Rendered((900, 901), starts_open=True), [owed or budgets[-1]], bar)
        (row,) = drain(controller)
        assert check(row, MARKERS, starts_open=True, max_answer_tokens=8) is None
        assert engine.unfinished == 0
        return row, engine

    return run


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_a_trace_below_its_bar_is_stopped_at_the_next_budget(with_bar, chunk):
    """The mean of the first 8 tokens is -0.35, of the first 4 -0.15."""
    row, engine = with_bar(-0.3, chunk=chunk)
    assert (row.thinking_tokens, row.answer_text, row.stopped, row.finish_reason) == (8, "", True, FinishReason.CUT)
    assert row.thinking_confidence == pytest.approx(-0.35)
    assert row.decoded_tokens == engine.state().generated_tokens
    assert [request.id for request in engine.requests] == ["task/0/trace"]  # no answer was asked for


def test_a_trace_above_its_bar_answers(with_bar):
    row, engine = with_bar(-2.0)
    assert (row.thinking_tokens, row.answer_text, row.stopped) == (30, "w60", False)
    assert len(engine.requests) == 1


def test_the_largest_budget_is_looked_at_before_its_answer_is_asked_for(with_bar):
    row, engine = with_bar(-0.3, budgets=(4, 8))
    assert (row.thinking_tokens, row.stopped, len(engine.requests)) == (8, True, 1)
    row, engine = with_bar(-0.4, budgets=(4, 8))
    assert (row.thinking_tokens, row.stopped, row.answer_text, len(engine.requests)) == (8, False, "w50", 2)
