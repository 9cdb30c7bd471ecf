"""The KV cache of a run: in its files and its page, under a cache that is full, and one that holds no request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reasoning.engine.base import Engine, EngineState
from reasoning.engine.scripted import TOKEN_BYTES
from reasoning.eval import main, parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json
from reasoning.preflight import Plan
from tests.end_to_end import scripted
from tests.end_to_end.conftest import arguments, lines
from tests.end_to_end.test_bad_input import Run


class FullEngine(scripted.SlowEngine):
    """Says that its cache was full: 3 preemptions, 21 tokens computed again, after the first step."""

    def state(self) -> EngineState:
        state = super().state()
        return state if state.steps < 2 else replace(state, preemptions=3, recomputed_tokens=21)


class SmallEngine(scripted.SlowEngine):
    """Has one block."""

    def describe(self) -> dict:
        said = super().describe()
        return said | {"kv_cache": said["kv_cache"] | {"blocks": 1}}


def command(engine: type[scripted.SlowEngine]):
    def start(plan: Plan, _log: Path) -> Engine:
        return engine(scripted.Model(plan), plan.max_model_len, max_running=plan.config.engine.max_num_seqs)

    def call(given: Sequence[str]) -> int:
        return evaluate(*parse(given), start)

    return call


def test_what_a_run_takes_is_told_before_and_after(model, tmp_path, run: Run):
    done = run(arguments(model, tmp_path / "run"))
    assert "KV: 1,024 B a token, 512 KiB a request at " in done.err
    assert ", room for 256 at once in 128 MiB; up to 256 run at once while each can still grow by 1/8" in done.err
    kv = read_json(tmp_path / "run" / "results.json")["kv_cache"]
    states = lines(tmp_path / "run" / "engine.jsonl")
    assert kv["peak_bytes"] == max(state["kv_blocks_used"] for state in states) * 16 * TOKEN_BYTES > 0
    assert (kv["preemptions"], kv["n_outside_prediction"], kv["n_states"]) == (0, 0, len(states))
    assert kv["byte_seconds_per_correct"] > 0
    assert read_json(tmp_path / "run" / "plots" / "kv.json")["peak_bytes"] == kv["peak_bytes"]
    assert "How the KV cache grows with the thinking" in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_preemptions_are_a_warning(model, tmp_path, run: Run):
    done = run(arguments(model, tmp_path / "run", "--engine.max_num_seqs", "16"), command(FullEngine))
    assert "; 16 run at once, as set\n" in done.err
    said = "the KV cache was full: 3 preemptions, 21 tokens computed again"
    assert f"warning: {said}" in done.out
    assert said in (tmp_path / "run" / "report.html").read_text("utf-8")
    kv = read_json(tmp_path / "run" / "results.json")["kv_cache"]
    assert (kv["preemptions"], kv["recomputed_tokens"]) == (3, 21)


def test_a_cache_without_room_for_one_request_is_refused_before_the_first_sample(model, tmp_path, run: Run):
    done = run(arguments(model, tmp_path / "run"), command(SmallEngine))
    assert done.code == 2
    assert "room for 0 at once" in done.err
    assert "error: one request of 512 tokens needs 512 KiB of KV cache (1,024 bytes a token)" in done.err
    assert "and there are 16 KiB; use smaller --budgets" in done.err
    assert lines(tmp_path / "run" / "traces.jsonl") == []


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_cache_that_is_set_too_small_is_refused_before_anything_starts(tmp_path, run: Run, dry):
    given = ["--budgets", "50k", "--limit", "1", "--engine.kv_cache_gb", "0.1", "--out", str(tmp_path / "run"), *dry]
    done = run(given, main)
    assert (done.code, done.out) == (2, "")
    assert "needs 122 MiB of KV cache (2,560 bytes a token), and there are 102 MiB; use smaller --budgets" in done.err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_says_what_a_request_takes(run: Run):
    done = run(["--budgets", "50k", "--limit", "1", "--dry-run"], main)
    assert "\nKV: 2,560 B a token, 122 MiB a request at 50k, in the checkpoint's dtype (without a GPU" in done.out
    done = run(
        ["--budgets", "50k", "--limit", "1", "--dry-run", "--engine.kv_cache_gb", "1", "--engine.dtype", "float32"],
        main,
    )
    assert "\nKV: 5,120 B a token, 245 MiB a request at 50k, room for 4 at once in 1 GiB, in float32\n" in done.out
