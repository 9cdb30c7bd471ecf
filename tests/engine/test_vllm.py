"""The real engine on the CPU. Each test's own prompts and seeds; the engine is shared by all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from reasoning.engine.base import EngineError, EngineSettings, Output, StopReason
from reasoning.engine.vllm import VllmEngine

ROOT = Path(__file__).parents[2]


def ids(outputs: list[Output]) -> list[int]:
    return [token for output in outputs for token in output.new_ids]


def test_streaming_neither_loses_nor_repeats_ids(run, request_of):
    whole = run([request_of(n, max_tokens=37 + n) for n in range(8)])
    streamed = run([request_of(n, max_tokens=37 + n, stream=True) for n in range(8)])
    for name in whole:
        assert ids(streamed[name]) == ids(whole[name])
        assert [len(output.new_ids) for output in streamed[name][:-1]] == [5] * ((len(ids(whole[name])) - 1) // 5)
        assert len(whole[name]) == 1
        assert [output.finished for output in streamed[name]] == [False] * (len(streamed[name]) - 1) + [True]


def test_a_stop_id_ends_the_request_and_is_kept(run, request_of):
    free = ids(run([request_of(20)])["r20"])
    stop = free[30]
    for stream in (False, True):
        outputs = run([request_of(20, stop_ids=(stop, 63), stream=stream)])["r20"]
        assert ids(outputs) == free[: free.index(stop) + 1]
        assert outputs[-1].stop_reason is StopReason.STOP


def test_only_the_requests_own_ids_stop_it(run, request_of):
    """The checkpoint's end-of-text id is 1."""
    outputs = run([request_of(n, max_tokens=300) for n in range(21, 25)])
    assert any(1 in ids(output)[:-1] for output in outputs.values())
    assert all(len(ids(output)) == 300 for output in outputs.values())


def test_max_tokens_and_the_context_are_limits(run, request_of):
    short, long = run([request_of(26, max_tokens=1), request_of(27, length=1000, max_tokens=100)]).values()
    assert (len(ids(short)), short[-1].stop_reason) == (1, StopReason.LENGTH)
    assert (len(ids(long)), long[-1].stop_reason) == (24, StopReason.LENGTH)


def test_the_seed_decides_whatever_else_is_in_the_batch(run, request_of):
    together = run([request_of(n) for n in range(30, 38)])
    for n in (30, 35):
        assert run([request_of(n)])[f"r{n}"][0].new_ids == together[f"r{n}"][0].new_ids
    assert run([request_of(30, seed=7)])["r30"][0].new_ids != together["r30"][0].new_ids


def test_more_prompts_than_a_step_holds_with_seeds(engine, run, request_of):
    assert engine.describe()["max_num_batched_tokens"] < 12 * 900
    together = run([request_of(n, length=900, max_tokens=20) for n in range(40, 52)])
    assert run([request_of(51, length=900, max_tokens=20)])["r51"][0].new_ids == together["r51"][0].new_ids


def test_an_aborted_request_says_nothing_more_and_its_id_is_free(engine, run, request_of):
    expected = run([request_of(60), request_of(61)])
    engine.add(request_of(60, stream=True))
    engine.add(request_of(61))
    for _ in range(12):
        engine.step()
    engine.abort("r60")
    engine.abort("never added")
    engine.add(request_of(62, name="r60"))
    outputs: dict[str, list[int]] = {"r60": [], "r61": []}
    while engine.unfinished:
        for output in engine.step():
            outputs[output.request_id] += output.new_ids
    assert outputs["r61"] == ids(expected["r61"])
    assert outputs["r60"] == ids(run([request_of(62)])["r62"])


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ((), "the prompt is empty"),
        ((5,) * 1024, "the prompt of 1,024 tokens leaves no room in the context of 1,024"),
        ((5, 64), "the prompt holds the id 64, the model knows ids below 64"),
    ],
)
def test_a_request_that_cannot_run_is_an_error_output_beside_the_others(run, request_of, prompt, reason):
    outputs = run([request_of(65, prompt_ids=prompt), request_of(66)])
    assert [(output.stop_reason, output.error) for output in outputs["r65"]] == [(StopReason.ERROR, reason)]
    assert len(ids(outputs["r66"])) == 60


def test_a_request_that_vllm_refuses_is_an_error_output(run, request_of):
    (output,) = run([request_of(67, top_p=1.5)])["r67"]
    assert output.stop_reason is StopReason.ERROR
    assert "top_p" in str(output.error)


def test_an_id_may_run_once_at_a_time(engine, request_of):
    engine.add(request_of(68))
    with pytest.raises(EngineError, match="request r68 is already running"):
        engine.add(request_of(68))
    engine.abort("r68")
    assert engine.unfinished == 0


def test_cached_prefixes_are_whole_blocks_of_earlier_prompts(run, request_of):
    first = run([request_of(70, length=100)])["r70"][0]
    again = run([request_of(70, length=100)])["r70"][0]
    assert (first.cached_tokens, again.cached_tokens) == (0, 96)
    assert first.new_ids == again.new_ids
    streamed = run([request_of(70, length=100, stream=True)])["r70"]
    assert [output.cached_tokens for output in streamed] == [96, *[0] * (len(streamed) - 1)]


def test_one_token_to_choose_from_is_greedy_at_any_temperature(run, request_of):
    greedy = ids(run([request_of(72, temperature=0.0)])["r72"])
    assert ids(run([request_of(72)])["r72"]) != greedy
    for narrow in ({"top_k": 1}, {"min_p": 1.0}):
        assert ids(run([request_of(72, **narrow)])["r72"]) == greedy
    unlimited = run([request_of(72, top_k=0, min_p=0.0)])["r72"]
    assert ids(unlimited) == ids(run([request_of(72, top_k=64)])["r72"])  # the whole vocabulary


def test_timings_of_a_request(run, request_of):
    timings = run([request_of(71)])["r71"][0].timings
    assert 0 <= timings.queued_s <= timings.first_token_s < timings.total_s
    assert timings.preemptions == 0


def test_every_step_is_known_with_its_batch_and_context(engine, request_of):
    engine.take_steps()
    started = time.perf_counter()
    outputs = {"a": [], "b": []}
    engine.add(request_of(75, name="a", length=40, max_tokens=10, stream=True))
    for number in range(24):
        if number == 4:
            engine.add(request_of(76, name="b", length=100, max_tokens=10, stream=True))
        for output in engine.step():
            outputs[output.request_id].append(output)
    wall = time.perf_counter() - started
    assert not engine.unfinished
    steps = engine.take_steps()
    # Step 1 computes the prompt of a, steps 2 to 10 one token each; b starts in step 5 and decodes in steps 6 to 14.
    assert steps.batch == [1] * 4 + [2] * 6 + [1] * 4
    assert steps.prefill == [40, 0, 0, 0, 100] + [0] * 9
    assert steps.prompts == [1, 0, 0, 0, 1] + [0] * 9
    alone, together = [0, 40, 41, 42, 43], [44 + 100, 45 + 101, 46 + 102, 47 + 103, 48 + 104]
    assert steps.context == alone + together + [105, 106, 107, 108]
    assert 0 < sum(steps.microseconds) / 1e6 <= wall
    assert len(engine.take_steps()) == 0
    for found in outputs.values():
        times = [second for output in found for second in output.times]
        assert len(times) == 10
        assert times == sorted(times)
        assert times[0] == pytest.approx(found[-1].timings.first_token_s)
        assert times[-1] == pytest.approx(found[-1].timings.total_s)


def test_state_counts_what_happened(engine, request_of):
    before = engine.state()
    for n in range(80, 100):
        engine.add(request_of(n, length=64, max_tokens=30))
    for _ in range(10):
        engine.step()
    middle = engine.state()
    while engine.unfinished:
        engine.step()
    after = engine.state()
    assert (before.running, before.waiting, before.kv_blocks_used) == (0, 0, 0)
    assert (middle.running, middle.waiting) == (16, 4)
    assert middle.kv_blocks_used == 16 * 3
    assert (after.running, after.waiting, after.kv_blocks_used) == (0, 0, 0)
    assert after.generated_tokens - before.generated_tokens == 20 * 30
    assert after.prompt_tokens - before.prompt_tokens == 20 * 64
    assert (middle.steps - before.steps, after.steps - before.steps) == (10, 60)
    assert after.kv_blocks_total == engine.describe()["kv_blocks"] - 1
    assert 0 < after.step_s < after.time_s


def test_new_weights_are_the_ones_that_answer(engine, run, request_of, make_model):
    """Greedy continuations equal transformers'; an output head that kept the old embedding gives others."""
    import torch

    prompts = [request_of(n, temperature=0.0, max_tokens=25, stop_ids=()) for n in range(110, 118)]
    for seed in (1, 2, 0):
        model = make_model(seed)
        engine.load_weights((name, tensor.detach()) for name, tensor in model.named_parameters())
        outputs = run(prompts)
        for request in prompts:
            expected = model.generate(
                torch.tensor([request.prompt_ids]), max_new_tokens=25, do_sample=False, eos_token_id=None
            )
            assert ids(outputs[request.id]) == expected[0, len(request.prompt_ids) :].tolist()
            assert outputs[request.id][0].cached_tokens == 0


def test_weights_do_not_change_under_a_request(engine, request_of):
    engine.add(request_of(120))
    with pytest.raises(EngineError, match="1 unfinished requests"):
        engine.load_weights([])
    engine.abort("r120")


def test_the_death_of_the_engine_is_an_engine_error(engine, request_of, monkeypatch):
    def die() -> None:
        raise RuntimeError("out of memory")

    engine.add(request_of(121))
    with monkeypatch.context() as patch:
        patch.setattr(engine._client, "get_output", die)
        with pytest.raises(EngineError, match=r"died in step \d+, 1 requests were unfinished: RuntimeError: out of"):
            engine.step()
    engine.abort("r121")


def test_describe_says_what_runs(engine):
    described = engine.describe()
    assert described["device"] == "cpu"
    assert described["dtype"] == "float32"
    assert described["block_size"] == 32
    assert described["max_num_seqs"] == 16
    # 2 (keys, values) x 2 layers x 2 heads x 32 numbers x 4 bytes = 1,024 bytes a token
    assert described["kv_bytes"] == described["kv_blocks"] * 32 * 1024


def test_a_cache_smaller_than_one_request_is_refused(checkpoint):
    with pytest.raises(EngineError, match=r"one request of 4,096 tokens needs 0\.00394 GiB .*1,024 bytes a token"):
        VllmEngine(str(checkpoint), EngineSettings(kv_cache_gb=0.003), max_model_len=4096)


def test_a_context_beyond_the_models_is_refused(checkpoint):
    with pytest.raises(EngineError, match=r"(?s)vLLM could not start with .*8192"):
        VllmEngine(str(checkpoint), EngineSettings(kv_cache_gb=0.1), max_model_len=8192)


def test_preemption_is_counted_and_changes_no_ids(checkpoint, run, request_of, tmp_path):
    """Eight requests of 16 blocks each when they end, into 20 blocks."""
    requests = [request_of(n, max_tokens=450) for n in range(130, 138)]
    program = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from reasoning.engine.base import EngineSettings, Request
        from reasoning.engine.vllm import VllmEngine
        model, log, requests = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
        settings = EngineSettings(kv_cache_gb=21 * 32 * 1024 / 1024**3)
        engine = VllmEngine(model, settings, max_model_len=512, log=log)
        for fields in requests:
            engine.add(Request(**fields))
        outputs = {}
        while engine.unfinished:
            for output in engine.step():
                outputs[output.request_id] = (output.new_ids, output.timings.preemptions)
        print(json.dumps([outputs, engine.state().preemptions]))
        engine.close()
    """)
    log = tmp_path / "engine.log"
    finished = subprocess.run(
        [sys.executable, "-c", program, str(checkpoint), str(log), json.dumps([asdict(r) for r in requests])],
        cwd=ROOT,
        env=os.environ | {"VLLM_LOGGING_LEVEL": "WARNING"},
        capture_output=True,
        text=True,
        check=True,
    )
    outputs, preemptions = json.loads(finished.stdout)
    assert preemptions > 0
    assert sum(count for _, count in outputs.values()) == preemptions
    expected = run(requests)
    assert {name: new for name, (new, _) in outputs.items()} == {name: ids(out) for name, out in expected.items()}
    assert log.stat().st_size > 0
    assert finished.stderr == ""
