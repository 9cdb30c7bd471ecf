"""Code tasks through the whole evaluation: verdicts, budgets, calibration, and a sandbox that is not there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reasoning import score
from reasoning.files import read_json, write_json_lines
from reasoning.run_folder import open_run
from reasoning.summary import summarise
from tests.end_to_end import code_model, scripted
from tests.end_to_end.conftest import Outcome, line_count, lines

Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return code_model.save_model(tmp_path_factory.mktemp("models") / "coder")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def options(coder: Path, tasks: str, out: Path, *more: str) -> list[str]:
    common = ["--budgets", "8,none", "--samples", "6", "--temperature", "1", "--quiet"]
    return ["--model", str(coder), "--tasks", tasks, "--out", str(out), *common, *more]


def test_programs_are_judged_by_their_tests(run: Run, coder, tmp_path):
    tasks = write(tmp_path / "own.jsonl", code_model.records())
    out = tmp_path / "run"
    outcome = run(options(coder, tasks, out), code_model.main)
    assert outcome.code == 0, outcome.err
    traces = {(t["task_id"], t["sample"], b): t for t in lines(out / "traces.jsonl") for b in t["budgets"]}
    verdicts = lines(out / "verdicts.jsonl")
    assert len(verdicts) == 3 * 6 * 3
    for verdict in verdicts:
        trace = traces[verdict["task_id"], verdict["sample"], verdict["budget"]]
        answer = trace["answer_text"]
        status = "no_answer" if "I do not know" in answer else None
        status = status or ("correct" if code_model.PROGRAMS[verdict["task_id"]][0] in answer else "wrong")
        assert verdict["status"] == status
        assert verdict["verifier"] == "code"
        assert verdict["rule"] == {"correct": "pass", "wrong": "fail", "no_answer": "no_program"}[status]
        assert verdict["score"] == {"correct": 1.0, "wrong": 0.5, "no_answer": 0.0}[status]
    assert set(Counter(verdict["status"] for verdict in verdicts)) == {"correct", "wrong", "no_answer"}
    found = read_json(out / "results.json")
    assert found["run"]["sandbox"] == "full"
    assert not any("sandbox" in warning for warning in found["warnings"])
    point = found["points"][-1]
    assert point["pass_at"]["1"] == pytest.approx(point["accuracy"])
    assert point["pass_at"]["1"] <= point["pass_at"]["4"]
    (attempt,) = read_json(out / "manifest.json")["attempts"]
    assert attempt["sandbox"] == "full"
    again = run([str(out)], score.main)
    assert "0 of 54 verdicts changed" in again.out
    check_that_a_failed_sandbox_is_no_zero(out)


def check_that_a_failed_sandbox_is_no_zero(out: Path) -> None:
    before = read_json(out / "results.json")["points"][-1]
    verdicts = lines(out / "verdicts.jsonl")
    right = next(v for v in verdicts if v["budget"] is None and v["status"] == "correct")
    right |= {"status": "error", "rule": "sandbox_error", "score": None}
    write_json_lines(out / "verdicts.jsonl", verdicts)
    results = summarise(open_run(out)).results
    point = results.points[-1]
    assert (point.n_missing, point.n_samples) == (1, before["n_samples"] - 1)
    assert point.statuses["missing"] == 1
    assert "the engine or the sandbox failed on 1 of 54 samples; they are in no rate" in results.warnings


def test_a_forced_answer_may_begin_inside_a_block(run: Run, coder, tmp_path):
    tasks = write(tmp_path / "own.jsonl", code_model.records())
    out = tmp_path / "run"
    assert run(options(coder, tasks, out, "--closing", "code", "--baseline", "false"), code_model.main).code == 0
    forced = [trace for trace in lines(out / "traces.jsonl") if trace["forced"]]
    assert forced
    assert all(trace["answer_text"].startswith("\n\n```python\n") for trace in forced)
    verdicts = {(v["task_id"], v["sample"], v["budget"]): v for v in lines(out / "verdicts.jsonl")}
    for trace in forced:
        right, _ = code_model.PROGRAMS[trace["task_id"]]
        status = verdicts[trace["task_id"], trace["sample"], trace["budgets"][0]]["status"]
        assert status == ("correct" if right in trace["answer_text"] else "wrong")


def test_problems_whose_reference_fails_are_left_out(run: Run, coder, tmp_path):
    records = code_model.records()
    records[0]["solution"] = code_model.PROGRAMS["square"][1]
    del records[1]["solution"]
    tasks = write(tmp_path / "own.jsonl", records)
    out = tmp_path / "run"
    outcome = run(options(coder, tasks, out, "--calibrate"), code_model.main)
    assert outcome.code == 0, outcome.err
    manifest, found = read_json(out / "manifest.json"), read_json(out / "results.json")
    assert manifest["n_tasks"] == 2
    left_out = manifest["calibration"]["left_out"]
    assert list(left_out) == ["square"] and left_out["square"].startswith("fail: test 2 of 2: fail")
    assert (manifest["calibration"]["checked"], manifest["calibration"]["unchecked"]) == (2, 1)
    assert {trace["task_id"] for trace in lines(out / "traces.jsonl")} == {"inc", "read"}
    assert found["run"]["left_out"] == ["square"]
    assert "1 problems are left out, since their reference solution fails here: square" in found["warnings"]
    resumed = run([*options(coder, tasks, out, "--calibrate"), "--resume"], code_model.main)
    assert resumed.code == 0, resumed.err


def test_nothing_to_calibrate(run: Run, coder, tmp_path):
    records = [{**record, "solution": None} for record in code_model.records()]
    tasks = write(tmp_path / "own.jsonl", records)
    outcome = run(options(coder, tasks, tmp_path / "run", "--calibrate"), code_model.main)
    assert outcome.code == 2
    assert "none of these tasks has one; leave it out" in outcome.err


WITHOUT_NAMESPACES = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")


def can_switch_off_namespaces() -> bool:
    done = subprocess.run([*WITHOUT_NAMESPACES, "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_without_namespaces_code_tasks_are_refused_before_anything_starts(coder, tmp_path):
    if not can_switch_off_namespaces():
        pytest.skip("namespaces cannot be switched off here")
    tasks = write(tmp_path / "own.jsonl", code_model.records())
    arguments = options(coder, tasks, tmp_path / "run")
    command = [*WITHOUT_NAMESPACES, sys.executable, "-m", "tests.end_to_end.code_model", *arguments]
    done = subprocess.run(command, cwd=scripted.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: this system gives no sandbox of tier full (")
    assert "python -m verifiers.sandbox doctor" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_weaker_sandbox_is_said_everywhere(coder, tmp_path):
    """Asked for where the system gives no more: the tier is in every verdict, the manifest and the warnings."""
    if not can_switch_off_namespaces():
        pytest.skip("namespaces cannot be switched off here")
    tasks, out = write(tmp_path / "own.jsonl", code_model.records()), tmp_path / "run"
    command = [*WITHOUT_NAMESPACES, sys.executable, "-m", "tests.end_to_end.code_model"]
    environment = {**os.environ, "REASONING_SANDBOX_TIER": "process"}
    done = subprocess.run(
        [*command, *options(coder, tasks, out, "--baseline", "false")],
        cwd=scripted.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (attempt,) = read_json(out / "manifest.json")["attempts"]
    tier = attempt["sandbox"]
    assert tier in ("landlock", "process")
    graded = [verdict for verdict in lines(out / "verdicts.jsonl") if verdict["rule"] != "no_program"]
    assert graded
    assert all(f"sandbox tier {tier}" in verdict["detail"] for verdict in graded)
    assert {verdict["status"] for verdict in graded} == {"correct", "wrong"}
    warning = f"programs ran in a sandbox of tier {tier}, not full; docs/sandbox.md says what it lacks"
    assert warning in read_json(out / "results.json")["warnings"]
    assert f"warning: {warning}" in done.stdout


def test_an_interrupted_run_leaves_no_program_behind(coder, tmp_path):
    """Ctrl-C twice kills the evaluation at once; what it ran must end with it."""
    hang = {"id": "hang", "problem": "[hang]", "tests": code_model.records()[0]["tests"], "limits": {"timeout_s": 100}}
    tasks = write(tmp_path / "own.jsonl", [hang])
    command = [sys.executable, "-m", "tests.end_to_end.code_model", *options(coder, tasks, tmp_path / "run")]
    with subprocess.Popen(command, cwd=scripted.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        tree = psutil.Process(process.pid)
        wait_until(lambda: line_count(tmp_path / "run" / "traces.jsonl") > 0, 60)
        time.sleep(1.0)  # until programs are asleep in their boxes
        started = tree.children(recursive=True)
        assert started
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait(30)
    wait_until(lambda: not any(child.is_running() and status(child) != "zombie" for child in started), 10)


def status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return "gone"


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
