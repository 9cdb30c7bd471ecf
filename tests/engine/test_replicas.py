"""Several real engines as one: the same ids, sums of their states, and nothing left behind when one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from reasoning.engine.base import CacheTooSmall, EngineError, EngineSettings, Output, StopReason
from reasoning.engine.replica import EngineArguments
from reasoning.engine.replicas import Replicas, open_engine
from reasoning.engine.vllm import VllmEngine
from tests.engine.conftest import MakeModel, MakeRequest, Run

SETTINGS = EngineSettings(max_num_seqs=16, kv_cache_gb=0.1, stream_interval=5, replicas=2)


@pytest.fixture(scope="module")
def two(checkpoint: Path) -> Iterator[Replicas]:
    engine = open_engine(EngineArguments(str(checkpoint), SETTINGS, 1024, logprobs=True))
    assert isinstance(engine, Replicas)
    yield engine
    engine.close()


def drain(engine: Replicas, outputs: dict[str, list[Output]]) -> dict[str, list[Output]]:
    while engine.unfinished:
        for output in engine.step():
            outputs.setdefault(output.request_id, []).append(output)
    return outputs


def ids(outputs: list[Output]) -> tuple[int, ...]:
    return tuple(token for output in outputs for token in output.new_ids)


def test_ids_are_those_of_one_engine_and_both_replicas_work(two: Replicas, run: Run, request_of: MakeRequest):
    requests = [replace(request_of(n), id=f"task-{n}/0/trace", stream=n % 2 == 0) for n in range(8)]
    alone = run(requests)
    before = two.state()
    for request in requests:
        two.add(request)
    assert two.unfinished == 8
    assert [two._load[replica] for replica in two._replicas] == [4, 4]
    together = drain(two, {})
    for request in requests:
        assert ids(together[request.id]) == ids(alone[request.id])
        last = together[request.id][-1]
        assert last.finished and last.stop_reason is StopReason.LENGTH and last.timings is not None
        assert sum(len(output.logprobs) for output in together[request.id]) == 60
    assert len(together["task-0/0/trace"]) == 12 and len(together["task-1/0/trace"]) == 1
    after = two.state()
    assert after.generated_tokens - before.generated_tokens == 8 * 60
    assert after.steps - before.steps >= 2 * 60
    assert after.running == after.waiting == after.kv_blocks_used == 0
    assert two.free_blocks == after.kv_blocks_total == two.describe()["kv_cache"]["blocks"]


def test_a_fork_goes_where_its_trace_was(two: Replicas, request_of: MakeRequest):
    traces = [replace(request_of(20 + n, length=96), id=f"fork-{n}/3/trace", max_tokens=4) for n in range(4)]
    for trace in traces:
        two.add(trace)
    drain(two, {})
    for trace in traces:
        two.add(replace(trace, id=trace.id.replace("trace", "fork:64")))
        [output] = drain(two, {})[trace.id.replace("trace", "fork:64")]
        assert output.cached_tokens >= 64  # whole blocks of 32


def test_a_request_that_was_aborted_can_be_asked_again(two: Replicas, run: Run, request_of: MakeRequest):
    request = request_of(30, name="again/0/trace", max_tokens=200, stream=True)
    expected = ids(run([request])[request.id])
    two.add(request)
    while not two.step():
        pass
    two.abort(request.id)
    two.abort("nobody/0/trace")
    assert two.unfinished == 0
    two.add(request)
    with pytest.raises(EngineError, match="already running"):
        two.add(request)
    assert ids(drain(two, {})[request.id]) == expected


def test_one_that_can_never_run_is_an_error_output(two: Replicas, request_of: MakeRequest):
    two.add(replace(request_of(31), id="long/0/trace", prompt_ids=tuple([5] * 2000)))
    [output] = drain(two, {})["long/0/trace"]
    assert output.stop_reason is StopReason.ERROR and "no room" in str(output.error)


def test_new_weights_reach_every_replica(
    two: Replicas, engine: VllmEngine, run: Run, make_model: MakeModel, request_of: MakeRequest
):
    requests = [request_of(40 + n, name=f"weights-{n}/0/trace") for n in range(4)]
    old = run(requests)
    for held in (engine, two):
        held.load_weights(make_model(1).state_dict().items())
    try:
        new = run(requests)
        for request in requests:
            two.add(request)
        with pytest.raises(EngineError, match="4 unfinished requests"):
            two.load_weights(make_model(0).state_dict().items())
        together = drain(two, {})
        assert {name: ids(found) for name, found in together.items()} == {n: ids(found) for n, found in new.items()}
        assert all(ids(new[request.id]) != ids(old[request.id]) for request in requests)
    finally:
        for held in (engine, two):
            held.load_weights(make_model(0).state_dict().items())


def test_a_replica_that_dies_is_named_and_the_other_leaves_with_the_engine(checkpoint: Path, request_of: MakeRequest):
    engine = Replicas(EngineArguments(str(checkpoint), SETTINGS, 1024))
    processes = [replica._process for replica in engine._replicas]
    for n in range(4):
        engine.add(replace(request_of(n, max_tokens=900), id=f"task-{n}/0/trace", stream=True))
    os.kill(processes[1].pid or 0, signal.SIGKILL)
    with pytest.raises(EngineError, match=r"replica 2 of the engine died \(exit code -9\)"):
        drain(engine, {})
    engine.close()
    assert not any(process.is_alive() for process in processes)


def test_replicas_end_with_a_process_that_was_killed(checkpoint: Path, tmp_path: Path):
    program = f"""
import time
from pathlib import Path
from reasoning.engine.base import EngineSettings
from reasoning.engine.replica import EngineArguments
from reasoning.engine.replicas import Replicas
if __name__ == "__main__":
    settings = EngineSettings(max_num_seqs=4, kv_cache_gb=0.1, replicas=2)
    engine = Replicas(EngineArguments({str(checkpoint)!r}, settings, 256, log=Path({str(tmp_path / "log")!r})))
    Path({str(tmp_path / "pids")!r}).write_text(" ".join(str(one._process.pid) for one in engine._replicas))
    time.sleep(600)
"""
    script = tmp_path / "owner.py"
    script.write_text(program)
    owner = subprocess.Popen([sys.executable, str(script)], cwd=Path.cwd(), env=os.environ | {"PYTHONPATH": "."})
    deadline = time.monotonic() + 120
    while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():
        assert owner.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    owner.kill()
    owner.wait()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    deadline = time.monotonic() + 30
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < deadline, "a replica outlives its owner"
        time.sleep(0.2)


def test_a_cache_too_small_is_told_as_by_one_engine(checkpoint: Path):
    with pytest.raises(CacheTooSmall, match="one request of 4,096 tokens"):
        Replicas(EngineArguments(str(checkpoint), replace(SETTINGS, kv_cache_gb=0.004), 4096))


def test_the_cache_has_to_be_said(checkpoint: Path):
    with pytest.raises(EngineError, match="need engine"):
        Replicas(EngineArguments(str(checkpoint), replace(SETTINGS, kv_cache_gb=None), 1024))


def test_names_without_a_trace_are_spread_too(two: Replicas, request_of: MakeRequest):
    for n in range(4):
        two.add(request_of(50 + n, max_tokens=2))
    assert [two._load[replica] for replica in two._replicas] == [2, 2]
    drain(two, {})
