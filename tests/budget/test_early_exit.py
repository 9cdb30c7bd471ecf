"""Samples that a rule stops: which rows come of it, what is dropped and what is booked."""

import math

import pytest

from reasoning.budget import BudgetController, Sampling, Waits, check
from reasoning.budget.confidence import GROUP, answer_confidence, thinking_confidence
from reasoning.budget.early_exit import EarlyExit
from reasoning.budget.stopping import Agreement, Confidence, Probe
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason

EOS, CLOSE, FILLER = 0, 2, 999
PROMPT = (900, 901, 902)
MARKERS = ThinkMarkers((1,), (CLOSE,))
BUDGETS = (0, 4, 8, 12, 16, NO_LIMIT)
THINK = tuple(range(10, 40))


@pytest.fixture
def sample(tokenizer, drain):
    """One sample with a rule: answers by budget (`fork:8` -> ids), a trace that thinks `length` tokens and says w60."""

    def run(rule, answers, *, length=30, chunk=1, logprob=None, budgets=BUDGETS):
        def script(request):
            purpose = request.id.split("/")[-1]
            ids = (*THINK[:length], CLOSE, 60, EOS) if purpose == "trace" else (*answers[purpose], EOS)
            return ids + (FILLER,) * max(request.max_tokens - len(ids), 0)

        engine = ScriptedEngine(script, 200, block_size=4, step_tokens=chunk, logprob=logprob)
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
            early_exit=None if rule is None else EarlyExit(rule, lambda _task, answer: answer or None),
        )
        controller.submit("task", 0, Rendered(PROMPT, starts_open=True))
        rows = drain(controller)
        assert engine.unfinished == 0
        assert [row.key.budget for row in rows] == sorted(budgets) or rule is None
        for row in rows:
            assert check(row, MARKERS, starts_open=True, max_answer_tokens=8) is None
        return {row.key.budget: row for row in rows}, engine

    return run


def answers(*ids):
    return dict(zip(("fork:0", "fork:4", "fork:8", "fork:12", "fork:16"), ids, strict=False))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_two_answers_that_agree_end_the_sample(sample, chunk):
    rows, engine = sample(Agreement(2), answers((50,), (51,), (52, 53), (52, 53), (54,)), chunk=chunk)
    assert [rows[budget].answer_text for budget in BUDGETS] == ["w50", "w51", "w52 w53", *["w52 w53"] * 3]
    assert [rows[budget].thinking_tokens for budget in BUDGETS] == [0, 4, 8, 12, 12, 12]
    assert [rows[budget].stopped for budget in BUDGETS] == [False, False, False, True, True, True]
    # The answer at 12 is the one given; those at 4 and 8 were asked for, the one at 0 was not.
    assert [rows[budget].probe_tokens for budget in BUDGETS] == [0, 0, 2, 5, 5, 5]
    assert (rows[16].forced, rows[16].finish_reason) == (True, FinishReason.ANSWERED)
    assert engine.unfinished == 0


def test_the_rest_of_the_trace_is_not_sampled(sample):
    same = answers((50,), (51,), (51,), (51,), (51,))
    _, stopped = sample(Agreement(2), same, length=30)
    _, whole = sample(None, same, length=30)
    assert stopped.state().generated_tokens < whole.state().generated_tokens
    assert "task/0/trace" in stopped.aborted


@pytest.mark.parametrize("chunk", [1, 100])
def test_what_was_sampled_is_booked_once(sample, chunk):
    """Forks that were dropped while they ran are known to the engine alone."""
    rows, engine = sample(Agreement(2), answers((50,), (51,), (51,), (51,), (51,)), chunk=chunk)
    booked = sum(row.decoded_tokens for row in rows.values())
    assert booked <= engine.state().generated_tokens
    assert booked >= engine.state().generated_tokens - 2 * 3 * chunk
    assert [row.decoded_tokens > 0 for row in rows.values()] == [True, True, False, False, False, True]


def test_answers_are_judged_in_the_order_of_the_budgets(sample):
    """The fork at 4 takes long: until it is there, nothing is known of those at 8 and 12, which agree."""
    slow = (51, 51, 51, 51, 51, 51, 51)
    rows, _ = sample(Agreement(2), answers((50,), slow, (52,), (52,), (53,)), chunk=1)
    assert [rows[budget].stopped for budget in BUDGETS] == [False, False, False, True, True, True]


@pytest.mark.parametrize("length", [3, 6, 14])
def test_a_rule_that_never_stops_changes_nothing_but_the_tokens_asked_for(sample, length):
    apart = answers((50,), (51,), (52,), (53,), (54,))
    rows, _ = sample(Agreement(2), apart, length=length)
    plain, _ = sample(None, apart, length=length)
    for budget, row in rows.items():
        assert row.completion_ids == plain[budget].completion_ids
        assert (row.bound, row.decoded_tokens, row.stopped) == (
            plain[budget].bound,
            plain[budget].decoded_tokens,
            False,
        )
    probes = sum(1 for budget in (4, 8, 12, 16) if budget < length)
    assert rows[NO_LIMIT].probe_tokens == 2 * probes


def test_the_largest_budget_is_no_probe(sample):
    rows, _ = sample(Agreement(2), answers((50,), (51,), (51,)), budgets=(4, 8))
    assert [row.stopped for row in rows.values()] == [False, False]


def test_a_sure_answer_ends_the_sample(sample):
    sure = {"fork:4": 0.5, "fork:8": 0.94, "fork:12": 0.96}

    def logprob(request, _place):
        return math.log(sure.get(request.id.split("/")[-1], 0.99))

    rows, _ = sample(Confidence(0.95), answers((50,), (51,), (52,), (53,), (54,)), logprob=logprob)
    assert [rows[budget].stopped for budget in BUDGETS] == [False, False, False, True, True, True]
    assert rows[4].answer_confidence == pytest.approx(0.5)
    assert rows[16].answer_confidence == pytest.approx(0.96)
    assert rows[8].thinking_confidence == pytest.approx(math.log(0.99))


def test_without_log_probabilities_there_is_no_confidence(sample):
    rows, _ = sample(Confidence(0.5), answers((50,), (51,), (52,), (53,), (54,)))
    assert {row.stopped for row in rows.values()} == {False}
    assert {row.answer_confidence for row in rows.values()} == {None}
    assert {row.thinking_confidence for row in rows.values()} == {None}


def test_confidence_by_hand():
    assert answer_confidence([math.log(0.5), math.log(1.0), math.nan]) == pytest.approx(0.75)
    assert answer_confidence([]) is None
    assert thinking_confidence([-1.0, -3.0, math.nan]) == pytest.approx(-2.0)
    dip = [-0.1] * 1000 + [-2.0] * GROUP + [-0.1] * 1000
    assert thinking_confidence(dip) == pytest.approx(-2.0)
    assert thinking_confidence(dip[:1000]) == pytest.approx(-0.1)
    assert thinking_confidence([math.nan]) is None


def test_agreement_is_of_the_last_probes_that_say_something():
    probes = [Probe("a"), Probe("a"), Probe(None), Probe(None), Probe("b"), Probe("b"), Probe("b")]
    stops = [bool(Agreement(2)(probes[:count])) for count in range(1, len(probes) + 1)]
    assert stops == [False, True, False, False, False, True, True]
    assert [Agreement(3)(probes[:count]) for count in (6, 7)] == [False, True]
