from __future__ import annotations

from dataclasses import replace

import pytest

from reasoning.engine.base import EngineError, Output, Request, StopReason
from reasoning.engine.scripted import STEP_SECONDS, ScriptedEngine

REQUEST = Request("a", tuple(range(100, 140)), 10, 1.0, 1.0, seed=5, stop_ids=(9,))


def script(request: Request) -> tuple[int, ...]:
    """1, 2, ... 8, 9, 10, ... for seed 5; all shifted for others."""
    return tuple(range(request.seed - 4, request.seed + 300))


def finish(engine: ScriptedEngine) -> list[Output]:
    outputs = []
    while engine.unfinished:
        outputs += engine.step()
    return outputs


@pytest.mark.parametrize(
    ("changes", "ids", "reason"),
    [
        ({}, range(1, 10), StopReason.STOP),
        ({"max_tokens": 4}, range(1, 5), StopReason.LENGTH),
        ({"max_tokens": 9}, range(1, 10), StopReason.STOP),
        ({"seed": 105, "max_tokens": 99}, range(101, 125), StopReason.LENGTH),
    ],
)
def test_stop_ids_max_tokens_and_the_context_end_a_request(changes, ids, reason):
    engine = ScriptedEngine(script, max_model_len=64)
    engine.add(replace(REQUEST, **changes))
    (output,) = finish(engine)
    assert (output.new_ids, output.stop_reason) == (tuple(ids), reason)


def test_a_streamed_request_reports_each_step_and_the_same_ids():
    engine = ScriptedEngine(script, max_model_len=64, step_tokens=4)
    engine.add(replace(REQUEST, stream=True))
    assert [output.new_ids for output in finish(engine)] == [(1, 2, 3, 4), (5, 6, 7, 8), (9,)]


def test_requests_wait_for_room_and_are_timed():
    engine = ScriptedEngine(script, max_model_len=64, max_running=1)
    engine.add(REQUEST)
    engine.add(replace(REQUEST, id="b", max_tokens=2))
    engine.step()
    assert (engine.state().running, engine.state().waiting, engine.state().kv_blocks_used) == (1, 1, 3)
    a, b = finish(engine)
    assert a.timings is not None
    assert b.timings is not None
    assert (a.timings.queued_s, a.timings.total_s) == pytest.approx((0, 9 * STEP_SECONDS))
    assert (b.timings.queued_s, b.timings.first_token_s, b.timings.total_s) == pytest.approx(
        (9 * STEP_SECONDS, 10 * STEP_SECONDS, 11 * STEP_SECONDS)
    )
    assert (engine.state().steps, engine.state().generated_tokens, engine.state().prompt_tokens) == (11, 11, 80)


def test_prefixes_are_cached_in_whole_blocks_of_prompts_and_of_what_was_written():
    engine = ScriptedEngine(script, max_model_len=64)
    engine.add(REQUEST)
    (first,) = finish(engine)
    engine.add(REQUEST)  # 40 ids: two whole blocks
    engine.add(replace(REQUEST, id="fork", prompt_ids=(*REQUEST.prompt_ids, *range(1, 9), 7)))  # 48 of 49 are known
    engine.add(replace(REQUEST, id="other", prompt_ids=(0, *REQUEST.prompt_ids[1:])))
    engine.add(replace(REQUEST, id="exact", prompt_ids=REQUEST.prompt_ids[:32]))  # its last id is computed again
    cached = {output.request_id: output.cached_tokens for output in finish(engine)}
    assert first.cached_tokens == 0
    assert cached == {"a": 32, "fork": 48, "other": 0, "exact": 16}
    assert engine.state().cached_tokens == 96
    engine.add(replace(REQUEST, stream=True))
    assert [output.cached_tokens for output in finish(engine)] == [32, *[0] * 8]
    engine.load_weights([])
    engine.add(REQUEST)
    assert finish(engine)[0].cached_tokens == 0


def test_abort_forgets_a_request_wherever_it_is():
    engine = ScriptedEngine(script, max_model_len=64, max_running=1)
    engine.add(REQUEST)
    engine.add(replace(REQUEST, id="b"))
    engine.step()
    engine.abort("b")
    engine.abort("a")
    engine.abort("c")
    assert engine.unfinished == 0
    assert engine.step() == []
    assert (engine.aborted, [request.id for request in engine.requests]) == (["b", "a"], ["a", "b"])


def test_it_dies_in_the_step_it_is_told_to():
    engine = ScriptedEngine(script, max_model_len=64, fail_at_step=3)
    engine.add(REQUEST)
    engine.step()
    engine.step()
    with pytest.raises(EngineError, match="died in step 3"):
        engine.step()


def test_a_prompt_without_room_is_an_error_output():
    engine = ScriptedEngine(script, max_model_len=40)
    engine.add(REQUEST)
    assert engine.unfinished == 1
    (output,) = engine.step()
    assert (output.stop_reason, output.error) == (
        StopReason.ERROR,
        "the prompt of 40 tokens leaves no room in the context of 40",
    )


def test_an_id_may_run_once_at_a_time():
    engine = ScriptedEngine(script, max_model_len=64)
    engine.add(REQUEST)
    with pytest.raises(EngineError, match="request a is already running"):
        engine.add(REQUEST)


def test_weights_do_not_change_under_a_request():
    engine = ScriptedEngine(script, max_model_len=64)
    engine.add(REQUEST)
    with pytest.raises(EngineError, match="unfinished"):
        engine.load_weights([])


def test_a_script_that_just_ends_is_a_mistake():
    engine = ScriptedEngine(lambda _: (1, 2), max_model_len=64)
    with pytest.raises(ValueError, match="ends a after 2 of 10 ids"):
        engine.add(REQUEST)
