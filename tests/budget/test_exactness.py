"""Random traces against a second implementation: every budget by itself, token by token, the whole text known."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reasoning.budget import Waits, check
from reasoning.prompts import ThinkMarkers
from reasoning.types import NO_LIMIT, FinishReason

EOS = 0
PROMPT_TOKENS = 3
MARKERS = (
    ThinkMarkers((1,), (2,)),
    ThinkMarkers((1, 3), (2, 2, 4)),
    ThinkMarkers((1, 1), (1, 2)),
    ThinkMarkers((2, 1, 2), (2, 1)),
)
FILLER = (999,) * 400


@dataclass(frozen=True)
class Expected:
    completion: tuple[int, ...]
    thinking: int
    answer_start: int | None
    reason: FinishReason
    bound: bool
    escaped: bool


def items(ids: tuple[int, ...], markers: ThinkMarkers, inside: bool):
    """(kind, ids) of a whole text read from the left: kinds are think, other, open, close and end."""
    at = 0
    while at < len(ids):
        marker = markers.close_ids if inside else markers.open_ids
        if ids[at] == EOS:
            yield "end", (EOS,)
            return
        if ids[at : at + len(marker)] == marker:
            yield "close" if inside else "open", marker
            inside = not inside
            at += len(marker)
        else:
            yield "think" if inside else "other", ids[at : at + 1]
            at += 1


def independent(trace, answer, budget: int, markers: ThinkMarkers, starts_open: bool, closing, cap: int) -> Expected:
    """One run under a hard limit of `budget` thinking tokens. `answer(prefix)` is what follows the closing."""
    text: tuple[int, ...] = ()
    thinking, said, answer_start, sections, escaped = 0, 0, 0, int(starts_open), False
    inside = starts_open
    for kind, ids in items(trace, markers, starts_open):
        if kind == "end":
            reason = FinishReason.UNCLOSED if inside else FinishReason.ANSWERED
            return Expected(text + ids, thinking, None if inside else answer_start, reason, False, escaped)
        if kind == "think" and thinking == budget:
            break
        if kind == "open":
            said += (len(markers.open_ids) + len(markers.close_ids)) * (sections > 0)
            escaped |= sections > 0
            sections += 1
            if said >= cap:
                return Expected(text, thinking, answer_start, FinishReason.ANSWER_LENGTH, False, True)
        text += ids
        thinking += kind == "think"
        said += kind == "other"
        inside = kind == "open" or (inside and kind != "close")
        answer_start = len(text) if kind == "close" else answer_start
        if said == cap:
            return Expected(text, thinking, answer_start, FinishReason.ANSWER_LENGTH, False, True)
    else:
        raise AssertionError("the text has to be longer than what is read of it")
    if not closing:
        return Expected(text, thinking, None, FinishReason.CUT, True, escaped)
    text += closing
    where = next(i for i in range(len(closing)) if closing[i : i + len(markers.close_ids)] == markers.close_ids)
    answer_start = len(text) - len(closing) + where + len(markers.close_ids)
    return forced(text, answer(text), thinking, answer_start, cap - said, markers, escaped)


def forced(text, answer, thinking: int, answer_start: int, cap: int, markers: ThinkMarkers, escaped: bool) -> Expected:
    """What `answer` adds to `text` without any further thinking: it ends where it would think again."""
    said, before, inside, ended = 0, text, False, False
    for kind, ids in items(answer[:cap], markers, False):
        if kind == "think" or said == cap or (kind == "end" and inside):
            break
        if kind == "open":
            escaped = True
            said += len(markers.open_ids) + len(markers.close_ids)
            if said >= cap:
                break
            before, inside = text, True
        said += kind == "other"
        ended = kind == "end"
        text += ids
        if kind == "close":
            inside, answer_start = False, len(text)
    unended = FinishReason.REOPENED if inside else FinishReason.ANSWER_LENGTH
    reason = FinishReason.ANSWERED if ended else unended
    return Expected(before if inside else text, thinking, answer_start, reason, True, escaped or not ended)


ids_of_texts = st.lists(st.sampled_from([1, 1, 2, 2, 3, 4, 5, 6, 5, 6, 5, 6, EOS]), max_size=60).map(tuple)


@st.composite
def cases(draw):
    markers = draw(st.sampled_from(MARKERS))
    pieces = st.one_of(
        ids_of_texts,
        st.just(markers.open_ids),
        st.just(markers.close_ids),
        st.lists(st.sampled_from([5, 6]), min_size=1, max_size=12).map(tuple),
    )
    text = sum(draw(st.lists(pieces, max_size=8)), ())
    return {
        "markers": markers,
        "trace": text + draw(st.sampled_from([(EOS,), FILLER])),
        "answers": draw(st.lists(ids_of_texts, min_size=1, max_size=3)),
        "starts_open": draw(st.booleans()),
        "budgets": tuple(
            sorted(draw(st.sets(st.one_of(st.integers(0, 40), st.just(NO_LIMIT)), min_size=1, max_size=5)))
        ),
        "cap": draw(st.integers(1, 12)),
        "chunk": draw(st.integers(1, 20)),
        "closing": draw(st.sampled_from(["", "</think>", "w20 </think>", "w20 w21 </think> w22"])),
    }


def answer_to(answers, prefix) -> tuple[int, ...]:
    return answers[random.Random(repr(prefix)).randrange(len(answers))] + FILLER


def run_case(run, case, budgets, **options):
    def script(request):
        return (
            case["trace"] + FILLER if request.stream else answer_to(case["answers"], request.prompt_ids[PROMPT_TOKENS:])
        )

    fixed = {key: case[key] for key in ("markers", "closing", "starts_open", "cap", "chunk")}
    return run(script, budgets, context=150, **(fixed | options))


def content(row):
    """What a row says, without what it cost."""
    return (
        row.key,
        row.completion_ids,
        row.thinking,
        row.injected,
        row.answer_start,
        row.answer_text,
        row.finish_reason,
        row.bound,
        row.forced,
        row.escaped,
        row.waits,
        row.seed,
    )


@settings(max_examples=400, deadline=None)
@given(cases())
def test_every_budget_equals_a_run_by_itself(run, case):
    markers, trace = case["markers"], case["trace"] + FILLER
    result = run_case(run, case, case["budgets"])
    words = {"</think>": markers.close_ids, "w20": (20,), "w21": (21,), "w22": (22,)}
    closing = sum((words[word] for word in case["closing"].split()), ())
    overhead = 0 if case["starts_open"] else len(markers.open_ids)
    room = 150 - PROMPT_TOKENS - overhead - max(len(closing), len(markers.close_ids)) - case["cap"]
    room -= max(len(markers.open_ids), len(markers.close_ids)) - 1
    bound = 0
    for budget, row in result.rows.items():
        expected = independent(
            trace,
            lambda prefix: answer_to(case["answers"], prefix),
            min(budget, room),
            markers,
            case["starts_open"],
            closing,
            case["cap"],
        )
        assert row.completion_ids == expected.completion
        assert row.thinking_tokens == expected.thinking <= budget
        assert (row.answer_start, row.finish_reason) == (expected.answer_start, expected.reason)
        assert (row.bound, row.forced) == (expected.bound, expected.bound and bool(closing))
        assert row.escaped >= expected.escaped  # a second closing marker in the answer is an escape, too
        assert check(row, markers, case["starts_open"], max_answer_tokens=case["cap"]) is None
        bound += expected.bound
    assert len(result.requests("fork")) == bound * bool(closing)
    for request in result.requests("fork"):
        row = next(row for row in result.rows.values() if row.seed == request.seed)
        end = row.injected[-1][1]
        assert request.prompt_ids == row.prompt_ids + row.completion_ids[:end]


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 30))
def test_the_result_does_not_depend_on_how_many_ids_arrive_at_once(run, case, chunk):
    one = run_case(run, case, case["budgets"])
    other = run_case(run, case, case["budgets"], chunk=chunk)
    assert [content(row) for row in one.rows.values()] == [content(row) for row in other.rows.values()]


CLOSES_AT_A_BUDGET = {
    "markers": MARKERS[0],
    "trace": (5, 6, 5, 2, 6, EOS),
    "answers": [(6, EOS)],
    "starts_open": True,
    "budgets": (3, 9),
    "cap": 4,
    "chunk": 2,
    "closing": "</think>",
}


@settings(max_examples=200, deadline=None)
@given(case=cases(), times=st.integers(0, 2), chosen=st.integers(0, 31))
@example(case=CLOSES_AT_A_BUDGET, times=1, chosen=1)
def test_some_budgets_and_later_the_rest_equal_all_at_once(run, case, times, chosen):
    waits = Waits(times, "Wait w30")
    first = {budget for i, budget in enumerate(case["budgets"]) if chosen >> i & 1}
    together = run_case(run, case, case["budgets"], waits=waits).rows
    apart = run_case(run, case, case["budgets"], owed=tuple(first), waits=waits).rows
    apart |= run_case(run, case, case["budgets"], owed=tuple(set(case["budgets"]) - first), waits=waits).rows
    assert {key: content(row) for key, row in together.items()} == {key: content(row) for key, row in apart.items()}


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 3), st.integers(1, 30))
def test_waits_keep_to_the_budgets_too(run, case, waits, chunk):
    extension = Waits(waits, "Wait w30")
    one = run_case(run, case, case["budgets"], waits=extension)
    other = run_case(run, case, case["budgets"], waits=extension, chunk=chunk)
    assert [content(row) for row in one.rows.values()] == [content(row) for row in other.rows.values()]
    for row in one.rows.values():
        assert row.finish_reason is not FinishReason.ERROR
        assert check(row, case["markers"], case["starts_open"], max_answer_tokens=case["cap"]) is None
        assert row.waits <= waits


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(0, 2))
def test_what_the_engine_cached_and_generated_is_booked_once(run, case, times):
    """Of aborted requests too: this engine hands over every id before it can be told to stop."""
    result = run_case(run, case, case["budgets"], waits=Waits(times, "Wait w30"))
    rows = result.rows.values()
    assert sum(row.cached_tokens for row in rows) == result.state.cached_tokens
    assert sum(row.decoded_tokens for row in rows) == result.state.generated_tokens


@settings(max_examples=100, deadline=None)
@given(cases(), st.integers(1, 20))
def test_decoded_tokens_are_those_that_the_engine_sampled(run, case, chunk):
    result = run_case(run, case, case["budgets"], chunk=chunk)
    largest = result.rows[case["budgets"][-1]]
    forks = sum(row.decoded_tokens for row in result.rows.values() if row.forced and row is not largest)
    overshoot = sum(row.decoded_tokens for row in result.rows.values()) - forks
    written = len(largest.completion_ids) - largest.injected_tokens
    assert written <= overshoot
    if not case["closing"]:
        assert overshoot <= written + chunk + max(len(case["markers"].open_ids), len(case["markers"].close_ids))
