"""Hand-made traces. Ids: 0 end of text, 1 <think>, 2 </think>, 3 Wait, from 5 on words; the prompt is 900 901 902."""

from dataclasses import replace

import pytest

from reasoning.admission import Admission
from reasoning.budget import BudgetController, Sampling, Waits, check
from reasoning.budget.room import most_steps
from reasoning.budget.sampling import derive_seed
from reasoning.budgets import BudgetError
from reasoning.engine.base import Output, StopReason
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason, SampleKey, Timings

EOS, OPEN, CLOSE, WAIT, FILLER = 0, 1, 2, 3, 999
PROMPT = (900, 901, 902)
SINGLE = ThinkMarkers((OPEN,), (CLOSE,))
THINK = tuple(range(10, 20))  # ten thinking tokens
ENDLESS = tuple(range(100, 900)) * 100


def test_one_trace_answers_for_every_budget(run):
    result = run((*THINK, CLOSE, 60, 61, EOS), (4, 10, 12, NO_LIMIT))
    cut, *natural = result.rows.values()
    assert cut.completion_ids == (*THINK[:4], CLOSE, 50, EOS)
    assert (cut.thinking, cut.injected, cut.answer_start) == (((0, 4),), ((4, 5),), 5)
    assert (cut.text, cut.answer_text) == ("w10 w11 w12 w13 </think> w50 </s>", "w50")
    assert (cut.bound, cut.forced, cut.finish_reason) == (True, True, FinishReason.ANSWERED)
    assert (cut.thinking_tokens, cut.answer_tokens) == (4, 2)
    for row in natural:
        assert row.completion_ids == (*THINK, CLOSE, 60, 61, EOS)
        assert (row.thinking, row.injected, row.answer_start) == (((0, 10),), (), 11)
        assert (row.bound, row.forced, row.finish_reason) == (False, False, FinishReason.ANSWERED)
        assert row.answer_text == "w60 w61"
        assert not row.escaped
    (trace,), (fork,) = result.requests("trace"), result.requests("fork:4")
    assert trace.prompt_ids == PROMPT
    assert (trace.stream, trace.temperature, trace.top_p, trace.stop_ids) == (True, 0.7, 0.9, (EOS,))
    assert fork.prompt_ids == (*PROMPT, *THINK[:4], CLOSE)
    assert (fork.stream, fork.max_tokens, fork.temperature, fork.top_p) == (False, 8, 0.7, 0.9)
    assert {(request.top_k, request.min_p) for request in result.log} == {(20, 0.05)}
    assert {cut.seed, natural[0].seed} == {derive_seed(1, "task", 0, "fork:4"), derive_seed(1, "task", 0, "trace")}


def test_tokens_are_booked_once_on_the_largest_budget(run):
    result = run((*THINK, CLOSE, 60, EOS), (4, 10, 12), chunk=5)
    assert [row.decoded_tokens for row in result.rows.values()] == [2, 0, 13]
    assert [row.cached_tokens for row in result.rows.values()] == [4, 0, 0]
    result = run(ENDLESS, (4, 12), chunk=5)  # 15 thinking tokens were sampled before the 13th was seen
    assert [row.decoded_tokens for row in result.rows.values()] == [2, 15 + 2]
    assert result.requests("trace")[0].max_tokens == 12 + 1 + 8


def test_forks_start_while_the_trace_goes_on(run):
    result = run(ENDLESS, (2, 5, 9))
    assert [request.id for request in result.log] == ["task/0/trace", "task/0/fork:2", "task/0/fork:5", "task/0/fork:9"]
    assert [row.thinking_tokens for row in result.rows.values()] == [2, 5, 9]


def test_exactly_the_budget_is_not_bound(run):
    row = run((*THINK, CLOSE, 60, EOS), (10,)).rows[10]
    assert (row.bound, row.thinking_tokens) == (False, 10)


def test_budget_zero_closes_before_the_first_thinking_token(run):
    rows = run((*THINK, CLOSE, 60, EOS), (0, 99)).rows
    assert rows[0].completion_ids == (CLOSE, 50, EOS)
    assert (rows[0].thinking, rows[0].bound) == ((), True)
    rows = run((CLOSE, 60, EOS), (0, 99)).rows  # nothing to cut where nothing was thought
    assert (rows[0].bound, rows[0].completion_ids) == (False, (CLOSE, 60, EOS))


def test_the_model_opens_the_thinking_itself(run):
    result = run((55, OPEN, *THINK, CLOSE, 60, EOS), (4, 99), starts_open=False)
    rows = result.rows
    assert result.requests("fork")[0].max_tokens == 7  # what was said before the thinking is paid from the answer's cap
    assert rows[4].completion_ids == (55, OPEN, *THINK[:4], CLOSE, 50, EOS)
    assert rows[4].thinking == ((2, 6),)
    assert (rows[99].thinking, rows[99].answer_start) == (((2, 12),), 13)
    assert not rows[99].escaped


def test_a_model_that_never_opens_its_thinking_answers_for_every_budget(run):
    result = run((60, 61, EOS), (0, 4, 99), starts_open=False)
    assert len(result.log) == 1
    for row in result.rows.values():
        assert (row.answer_start, row.thinking, row.bound, row.answer_text) == (0, (), False, "w60 w61")


def test_end_of_text_inside_the_thinking_has_no_answer(run):
    rows = run((*THINK, EOS), (4, 10, 99)).rows
    assert rows[4].finish_reason is FinishReason.ANSWERED
    for budget in (10, 99):
        row = rows[budget]
        assert (row.finish_reason, row.answer_start, row.answer_text) == (FinishReason.UNCLOSED, None, "")
        assert (row.bound, row.thinking_tokens, row.completion_ids) == (False, 10, (*THINK, EOS))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_the_answer_cap(run, chunk: int):
    answer = tuple(range(60, 70))
    row = run((*THINK, CLOSE, *answer), (99,), cap=4, chunk=chunk).rows[99]
    assert row.completion_ids == (*THINK, CLOSE, *answer[:4])
    assert (row.finish_reason, row.escaped, row.answer_tokens) == (FinishReason.ANSWER_LENGTH, True, 4)
    row = run((*THINK, CLOSE, *answer[:3], EOS), (99,), cap=4, chunk=chunk).rows[99]
    assert (row.finish_reason, row.escaped, row.answer_tokens) == (FinishReason.ANSWERED, False, 4)
    row = run(lambda request: THINK if request.stream else answer, (5,), cap=4, chunk=chunk).rows[5]
    assert row.completion_ids == (*THINK[:5], CLOSE, *answer[:4])
    assert (row.finish_reason, row.escaped) == (FinishReason.ANSWER_LENGTH, True)


def test_closing_none_asks_for_no_answer(run):
    result = run((*THINK, CLOSE, 60, EOS), (4, 99), closing="")
    row = result.rows[4]
    assert (row.finish_reason, row.answer_start, row.completion_ids) == (FinishReason.CUT, None, THINK[:4])
    assert (row.bound, row.forced, row.injected, row.decoded_tokens) == (True, False, (), 0)
    assert len(result.log) == 1
    row = run(ENDLESS, (4,), closing="").rows[4]
    assert (row.finish_reason, row.decoded_tokens) == (FinishReason.CUT, 5)


def test_words_around_the_injected_marker(run):
    result = run(ENDLESS, (3,), closing="w20 w21 </think> w22")
    row = result.rows[3]
    assert row.completion_ids == (*ENDLESS[:3], 20, 21, CLOSE, 22, 50, EOS)
    assert (row.thinking, row.injected, row.answer_start) == (((0, 3),), ((3, 7),), 6)
    assert row.answer_text == "w22 w50"  # what was put into the answer's mouth belongs to the answer
    assert result.requests("fork")[0].max_tokens == 8


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 50])
def test_markers_of_several_tokens_split_between_outputs(run, chunk: int):
    markers = ThinkMarkers((5, 6), (7, 7, 8))
    # 7 7 7 8 is one thinking token and a marker; 5 9 and 7 7 9 are no markers
    trace = (5, 9, 5, 6, 10, 7, 7, 9, 7, 7, 7, 8, 60, 5, EOS)
    result = run(trace, (4, 5, 99), markers=markers, starts_open=False, chunk=chunk)
    assert result.rows[4].completion_ids == (5, 9, 5, 6, 10, 7, 7, 9, 7, 7, 8, 50, EOS)
    for budget in (5, 99):
        row = result.rows[budget]
        assert (row.thinking, row.answer_start, row.bound) == (((4, 9),), 12, False)
        assert row.completion_ids == trace
    assert len(result.requests("fork")) == 1


def test_thinking_again_in_the_answer_counts_and_is_flagged(run):
    trace = (*THINK, CLOSE, 60, OPEN, 70, 71, 72, CLOSE, 61, EOS)
    rows = run(trace, (4, 10, 11, 13, 99)).rows
    assert (rows[4].escaped, rows[4].thinking_tokens) == (False, 4)
    assert rows[10].completion_ids == (*THINK, CLOSE, 60, OPEN, CLOSE, 50, EOS)
    assert rows[11].completion_ids == (*THINK, CLOSE, 60, OPEN, 70, CLOSE, 50, EOS)
    assert rows[11].thinking == ((0, 10), (13, 14))
    for budget in (13, 99):
        assert rows[budget].completion_ids == trace
        assert (rows[budget].thinking_tokens, rows[budget].answer_text) == (13, "w61")
    assert [rows[budget].escaped for budget in (10, 11, 13, 99)] == [True] * 4
    assert all(check(row, SINGLE, starts_open=True, max_answer_tokens=8) is None for row in rows.values())


def test_a_forced_answer_that_thinks_again_ends_there(run):
    row = run(lambda request: ENDLESS if request.stream else (50, OPEN, 70, CLOSE, 51, EOS), (4,)).rows[4]
    assert row.completion_ids == (*ENDLESS[:4], CLOSE, 50)
    assert (row.escaped, row.thinking_tokens, row.answer_text) == (True, 4, "w50")
    assert row.finish_reason is FinishReason.REOPENED
    assert row.decoded_tokens == 5 + 6
    row = run(lambda request: ENDLESS if request.stream else (50, OPEN, EOS), (4,)).rows[4]
    assert (row.completion_ids[5:], row.finish_reason, row.escaped) == ((50,), FinishReason.REOPENED, True)
    row = run(lambda request: ENDLESS if request.stream else (OPEN, CLOSE, 51, EOS), (4,)).rows[4]
    assert (row.escaped, row.thinking_tokens, row.answer_text) == (True, 4, "w51")  # an empty section costs nothing
    row = run(lambda request: ENDLESS if request.stream else (50, 51, OPEN, EOS), (4,), cap=4).rows[4]
    assert row.completion_ids == (*ENDLESS[:4], CLOSE, 50, 51)  # and one without room for an answer is none
    assert (row.escaped, row.finish_reason) == (True, FinishReason.ANSWER_LENGTH)


def test_a_second_closing_marker_in_the_answer_is_an_escape(run):
    row = run(lambda request: ENDLESS if request.stream else (50, CLOSE, 51, EOS), (4,)).rows[4]
    assert (row.escaped, row.answer_text) == (True, "w50 </think> w51")


def test_a_model_that_opens_sections_for_ever_is_stopped(run):
    row = run((*THINK, *(CLOSE, OPEN) * 400), (99,)).rows[99]
    assert row.completion_ids == (*THINK, CLOSE, *(OPEN, CLOSE) * 3)  # the fourth pair would fill the cap of 8
    assert (row.finish_reason, row.escaped, row.thinking_tokens) == (FinishReason.ANSWER_LENGTH, True, 10)


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_waits_extend_thinking_that_closes_early(run, chunk: int):
    def script(request):
        scripts = {
            "trace": (*THINK, CLOSE, 60, EOS),
            "wait:1": (20, 21, CLOSE, 61, EOS),
            "wait:2": (22, CLOSE, 62, EOS),
        }
        return scripts.get(request.id.split("/")[-1], (50, EOS))

    result = run(script, (4, 10, 12, 99), waits=Waits(2), chunk=chunk)
    rows = result.rows
    assert rows[4].completion_ids == (*THINK[:4], CLOSE, 50, EOS)
    assert (rows[10].bound, rows[10].completion_ids) == (True, (*THINK, CLOSE, 50, EOS))
    assert rows[12].completion_ids == (*THINK, WAIT, 20, CLOSE, 50, EOS)
    assert rows[12].injected == ((10, 11), (12, 13))
    assert rows[99].completion_ids == (*THINK, WAIT, 20, 21, WAIT, 22, CLOSE, 62, EOS)
    assert (rows[99].thinking_tokens, rows[99].injected, rows[99].bound) == (15, ((10, 11), (13, 14)), False)
    assert [row.waits for row in rows.values()] == [0, 0, 1, 2]
    assert all(check(row, SINGLE, starts_open=True, max_answer_tokens=8) is None for row in rows.values())
    assert result.requests("wait:1")[0].prompt_ids == (*PROMPT, *THINK, WAIT)
    assert result.requests("wait:1")[0].seed != result.requests("trace")[0].seed
    spent = sum(len(script(request)) for request in result.log if request.stream)
    assert rows[99].decoded_tokens <= spent


def test_the_wait_does_not_know_which_budgets_are_owed(run):
    """Thinking that closes right at the largest budget goes on too, and is cut there."""
    trace = (*THINK, CLOSE, 60, EOS)
    together = run(trace, (10, 20), waits=Waits(1)).rows[10]
    alone = run(trace, (10,), waits=Waits(1))
    assert replace(alone.rows[10], decoded_tokens=0, cached_tokens=0, timings=Timings()) == replace(
        together, cached_tokens=0, decoded_tokens=0, timings=Timings()
    )
    assert (together.completion_ids, together.bound, together.waits) == ((*THINK, CLOSE, 50, EOS), True, 0)
    assert alone.requests("wait") == []  # nobody reads what it would write


def test_a_budget_that_ends_inside_the_wait(run):
    rows = run((*THINK, CLOSE, 60, EOS), (11, 12), waits=Waits(1, "Wait w30 w31")).rows
    assert rows[11].completion_ids == (*THINK, WAIT, CLOSE, 50, EOS)
    assert rows[12].completion_ids == (*THINK, WAIT, 30, CLOSE, 50, EOS)
    assert (rows[11].injected, rows[12].injected) == (((10, 11), (11, 12)), ((10, 12), (12, 13)))
    assert [(row.thinking_tokens, row.waits) for row in rows.values()] == [(11, 1), (12, 1)]


def test_loops_are_flagged_and_not_stopped(run):
    row = run((*range(100, 150), *(30, 31, 32) * 300, CLOSE, 60, EOS), (100, NO_LIMIT), context=2000).rows
    assert (row[100].looped, row[NO_LIMIT].looped) == (False, True)
    assert row[NO_LIMIT].thinking_tokens == 950


def test_no_limit_is_cut_where_the_context_ends(run):
    row = run(ENDLESS, (20, NO_LIMIT), context=100).rows[NO_LIMIT]
    assert row.thinking_tokens == 100 - len(PROMPT) - 1 - 8
    assert (row.bound, row.forced, row.finish_reason) == (True, True, FinishReason.ANSWERED)
    assert check(row, SINGLE, starts_open=True, max_answer_tokens=8) is None


def test_budgets_beyond_the_context_are_refused_with_the_largest_possible(run):
    with pytest.raises(BudgetError, match="write at most 88, or none"):
        run(ENDLESS, (20, 89), context=100)
    assert run(ENDLESS, (88,), context=100).rows[88].thinking_tokens == 88
    with pytest.raises(BudgetError, match="write at most 87"):
        run((OPEN, *ENDLESS), (88,), context=100, starts_open=False)
    with pytest.raises(BudgetError, match="lower --max-answer-tokens"):
        run(ENDLESS, (NO_LIMIT,), context=12)


def test_only_the_budgets_still_owed(run):
    everything = run(ENDLESS, (3, 6, 9, 12))
    rest = run(ENDLESS, (3, 6, 9, 12), owed=(9, 6))
    assert list(rest.rows) == [6, 9]
    assert rest.rows[6].completion_ids == everything.rows[6].completion_ids
    assert rest.requests("trace")[0].max_tokens == 9 + 1 + 8
    assert run(ENDLESS, (3, 6), owed=()).log == []


class FailingEngine(ScriptedEngine):
    """Takes requests and yields prepared outputs, whatever is asked."""

    def __init__(self, *outputs: list[Output]):
        super().__init__(lambda request: (FILLER,) * request.max_tokens, max_model_len=1000)
        self.outputs = list(outputs)

    def step(self):
        return self.outputs.pop(0)


def controller_on(engine: FailingEngine, tokenizer) -> BudgetController:
    controller = BudgetController(
        engine,
        tokenizer,
        SINGLE,
        Closing("bare", "</think>"),
        (2, 5, 9),
        max_answer_tokens=8,
        stop_ids=(EOS,),
        sampling=Sampling(),
        seed=0,
        waits=Waits(),
        concurrency=4,
    )
    controller.submit("task", 0, Rendered(PROMPT, True))
    return controller


def test_engine_errors_are_missing_samples_for_the_budgets_still_owed(tokenizer):
    lost = Output("task/0/trace", (13,), True, StopReason.ERROR, error="out of memory")
    answer = Output("task/0/fork:2", (50, EOS), True, StopReason.STOP)
    controller = controller_on(
        FailingEngine([Output("task/0/trace", (10, 11, 12), False)], [lost], [answer]), tokenizer
    )
    assert controller.unfinished == 3
    assert controller.step() == []
    five, nine = controller.step()
    for row, budget in ((five, 5), (nine, 9)):
        assert row.key == SampleKey("task", 0, budget)
        assert (row.finish_reason, row.error, row.answer_start) == (FinishReason.ERROR, "out of memory", None)
        assert (row.completion_ids, row.bound) == ((10, 11, 12), False)
        assert check(row, SINGLE, starts_open=True, max_answer_tokens=8) is None
    assert (five.decoded_tokens, nine.decoded_tokens) == (0, 4)
    (two,) = controller.step()
    assert (two.key.budget, two.finish_reason, two.error) == (2, FinishReason.ANSWERED, None)
    assert controller.unfinished == 0


def test_a_failed_fork_leaves_the_trace_alone(tokenizer):
    engine = FailingEngine(
        [Output("task/0/trace", (10, 11, 12), False)],
        [Output("task/0/fork:2", (), True, StopReason.ERROR, error="no room")],
        [Output("task/0/trace", (CLOSE, 60, EOS), True, StopReason.STOP)],
    )
    controller = controller_on(engine, tokenizer)
    controller.step()
    (two,) = controller.step()
    assert (two.finish_reason, two.error, two.forced, two.answer_start) == (FinishReason.ERROR, "no room", True, None)
    assert [row.finish_reason for row in controller.step()] == [FinishReason.ANSWERED] * 2


def test_an_engine_that_ends_a_trace_early_is_an_error(tokenizer):
    controller = controller_on(FailingEngine([Output("task/0/trace", (10,), True, StopReason.LENGTH)]), tokenizer)
    rows = controller.step()
    assert [row.finish_reason for row in rows] == [FinishReason.ERROR] * 3
    assert rows[0].error == "the engine ended a trace after 1 of 18 tokens"


def test_traces_wait_outside_of_the_engine_and_forks_do_not(tokenizer):
    engine = FailingEngine([])
    controller = controller_on(engine, tokenizer)
    for sample in range(1, 10):
        controller.submit("task", sample, Rendered(PROMPT, True))
    controller.step()
    assert engine.unfinished == len(engine.requests) == 4
    assert controller.unfinished == 30


def test_seeds_differ_by_everything_that_they_come_from():
    seeds = {
        derive_seed(*key)
        for key in [
            (0, "a", 0, "trace"),
            (1, "a", 0, "trace"),
            (0, "b", 0, "trace"),
            (0, "a", 1, "trace"),
            (0, "a", 0, "fork:1k"),
        ]
    }
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(0, "a", 0, "trace") == derive_seed(0, "a", 0, "trace")


class Cautious(Admission):
    """Lets a trace start while at most one other request is in the engine."""

    def __init__(self) -> None:
        self.room = 2
        self.asked: list[tuple[int, int]] = []

    def __call__(self, unfinished: int, free_blocks: int) -> bool:
        self.asked.append((unfinished, free_blocks))
        return unfinished < 2


def test_admission_holds_traces_back(tokenizer, drain):
    engine = ScriptedEngine(lambda request: (FILLER,) * request.max_tokens, 1000, block_size=4, max_running=8)
    admission = Cautious()
    controller = BudgetController(
        engine,
        tokenizer,
        SINGLE,
        Closing("bare", "</think>"),
        (9,),
        max_answer_tokens=8,
        stop_ids=(EOS,),
        sampling=Sampling(),
        seed=0,
        waits=Waits(),
        concurrency=4,
        admission=admission,
    )
    for number in range(5):
        controller.submit("task", number, Rendered(PROMPT, True))
    assert controller.most_steps_left == most_steps([18] * 5, [], 2)
    controller.step()
    assert engine.state().running == 2
    assert admission.asked == [(0, 8 * 250), (1, 8 * 250), (2, 8 * 250)]
    assert len(drain(controller)) == 5
