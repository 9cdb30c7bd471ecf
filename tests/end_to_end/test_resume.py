"""Whatever ends a run, what was finished stays, and the resumed run ends where an uninterrupted one does."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning.engine.base import Engine, EngineError
from reasoning.engine.scripted import ScriptedEngine
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json
from reasoning.preflight import Plan
from reasoning.run_folder import WRITTEN
from tests.end_to_end import scripted
from tests.end_to_end.conftest import (
    Child,
    Outcome,
    cost,
    line_count,
    lines,
    many,
    results,
    resume_arguments,
    verdicts,
)

Run = Callable[..., Outcome]
Fork = Callable[..., Child]

KILLS = 10


def keys(folder: Path) -> set[tuple[str, int, int]]:
    return {(t["task_id"], t["sample"], b) for t in lines(folder / "traces.jsonl") for b in t["budgets"]}


def test_killed_ten_times_and_resumed_equals_uninterrupted(model, tmp_path, uninterrupted, fork: Fork, monkeypatch):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.004")
    out = tmp_path / "killed"
    rng = random.Random(7)
    total = line_count(uninterrupted / "traces.jsonl")
    finished: set[tuple[str, int, int]] = set()
    for kill in range(KILLS):
        child = fork(many(model, out, "--resume"))
        target = line_count(out / "traces.jsonl") + rng.randint(0, total // KILLS)
        assert child.wait_for(lambda target=target: line_count(out / "traces.jsonl") >= target), (
            child.errors.read_text()
        )
        child.kill()
        assert child.wait() == -signal.SIGKILL, f"kill {kill} came too late"
        assert finished <= keys(out), "finished work was lost"
        finished = keys(out)
    assert finished < keys(uninterrupted), "the last kill came before the end"
    assert fork(many(model, out, "--resume")).wait() == 0
    assert results(out) == results(uninterrupted)
    assert verdicts(out) == verdicts(uninterrupted)
    assert (out / "results.csv").read_text() == (uninterrupted / "results.csv").read_text()
    assert keys(out) == keys(uninterrupted)
    assert total <= line_count(out / "traces.jsonl") < 1.5 * total, "every completion has its line, few have two"
    assert cost(out)["decoded_tokens"] >= cost(uninterrupted)["decoded_tokens"]


@pytest.mark.parametrize("name", ["traces.jsonl", "verdicts.jsonl", "engine.jsonl"])
def test_a_torn_last_line_is_cut_off(model, tmp_path, uninterrupted, run: Run, name):
    out = tmp_path / "torn"
    shutil.copytree(uninterrupted, out)
    whole = (out / name).read_bytes()
    (out / name).write_bytes(whole[:-20])
    assert run(many(model, out, "--resume")).code == 0
    assert results(out) == results(uninterrupted)
    assert verdicts(out) == verdicts(uninterrupted)
    assert all(lines(out / name))
    if name != "traces.jsonl":
        assert cost(out)["decoded_tokens"] == cost(uninterrupted)["decoded_tokens"]


def test_a_broken_line_in_the_middle_is_named(model, tmp_path, uninterrupted, run: Run):
    out = tmp_path / "broken"
    shutil.copytree(uninterrupted, out)
    content = (out / "traces.jsonl").read_bytes().split(b"\n")
    content[2] = content[2][:-10]
    (out / "traces.jsonl").write_bytes(b"\n".join(content))
    outcome = run(many(model, out, "--resume"))
    assert outcome.code == 2
    assert "traces.jsonl, line 3: not a JSON object" in outcome.err


def no_engine(plan: Plan, log: Path) -> Engine:
    raise AssertionError("there is nothing to sample")


def test_answers_without_verdict_are_graded_without_an_engine(model, tmp_path, uninterrupted, run: Run):
    out = tmp_path / "ungraded"
    shutil.copytree(uninterrupted, out)
    stored = (out / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
    (out / "verdicts.jsonl").write_bytes(b"".join(stored[::3]))
    assert evaluate(*parse(many(model, out, "--resume")), no_engine) == 0
    assert verdicts(out) == verdicts(uninterrupted)
    assert results(out) == results(uninterrupted)
    assert cost(out) == cost(uninterrupted)


def test_other_settings_are_listed(model, tmp_path, uninterrupted, run: Run):
    changed = ["--temperature", "0.6", "--closing", "none", "--resume"]
    outcome = run([*many(model, uninterrupted), *changed])
    assert outcome.code == 2
    assert "these differ: closing bare -> none, sampling.temperature 1.0 -> 0.6" in outcome.err


def test_other_data_are_noticed(model, tmp_path, run: Run):
    data = tmp_path / "data.jsonl"
    record = {"id": "a", "problem": "1 2 =3", "numbers": [1, 2], "answer": "3", "verifier": "countdown"}
    data.write_text(json.dumps(record) + "\n")
    settings = [
        "--model",
        str(model),
        "--tasks",
        str(data),
        "--budgets",
        "8",
        "--out",
        str(tmp_path / "run"),
        "--quiet",
    ]
    assert run(settings).code == 0
    data.write_text(json.dumps(record | {"answer": "4"}) + "\n")
    outcome = run([*settings, "--resume"])
    assert (outcome.code, "these differ: data.sha256." in outcome.err) == (2, True)


def test_settings_of_speed_and_memory_may_change(model, tmp_path, uninterrupted, run: Run):
    assert run([*many(model, uninterrupted, "--resume"), "--engine.max_num_seqs", "4"]).code == 0


def test_resume_starts_a_run_that_is_not_there(model, tmp_path, uninterrupted, run: Run):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "manifest.json.tmp").write_text("{")
    assert run(many(model, tmp_path / "new", "--resume")).code == 0
    assert results(tmp_path / "new") == results(uninterrupted)


def test_resume_starts_over_where_the_first_start_was_killed_at_once(model, tmp_path, uninterrupted, run: Run):
    early = tmp_path / "early"
    early.mkdir()
    shutil.copy(uninterrupted / "manifest.json", early)
    assert run(many(model, early, "--resume")).code == 0
    assert results(early) == results(uninterrupted)


def test_a_run_that_finished_nothing_is_started_over(model, tmp_path, uninterrupted, run: Run):
    def refuse(plan: Plan, log: Path) -> Engine:
        raise EngineError("no engine today")

    early = tmp_path / "early"
    assert run(many(model, early, "--seed", "7"), lambda words: evaluate(*parse(words), refuse)).code == 1
    (early / "notes.md").write_text("precious")
    assert run(many(model, early)).code == 0
    assert results(early) == results(uninterrupted)
    assert "no engine today" not in (early / "run.log").read_text()
    assert (early / "notes.md").read_text() == "precious"


def test_a_run_without_its_settings_is_not_thrown_away(model, uninterrupted, run: Run):
    (uninterrupted / "config.json").unlink()
    outcome = run(many(model, uninterrupted, "--resume"))
    assert outcome.code == 2
    assert "already holds 192 of 192 samples. Its config.json is gone: start over with --clean" in outcome.err


def test_a_used_folder_is_refused_with_counts(model, uninterrupted, run: Run):
    before = results(uninterrupted)
    outcome = run(many(model, uninterrupted))
    assert outcome.code == 2
    assert (
        f"{uninterrupted} already holds 192 of 192 samples. "
        "Continue with --resume, start over with --clean, or choose another --out." in outcome.err
    )
    assert results(uninterrupted) == before


def test_clean_starts_over(model, uninterrupted, run: Run):
    old = {path.relative_to(uninterrupted).as_posix() for path in uninterrupted.rglob("*") if path.is_file()}
    drawn = {"accuracy", "outcomes", "tokens", "seconds", "kv"}
    plots = {name for name in WRITTEN if name.startswith("plots/") and Path(name).stem not in drawn}
    assert old == {"manifest.json", *WRITTEN} - {"audit.jsonl", "comparison.html", "steps.jsonl", *plots}
    (uninterrupted / "plots" / "comparison.png").touch()
    own = [uninterrupted / "notes.md", uninterrupted / "plots" / "mine.png"]
    for path in own:
        path.write_text("precious")
    assert run(many(model, uninterrupted, "--clean", limit=4)).code == 0
    assert not (uninterrupted / "plots" / "comparison.png").exists()
    assert [path.read_text() for path in own] == ["precious", "precious"]
    assert len(verdicts(uninterrupted)) == 4 * 2 * 4
    assert len(keys(uninterrupted)) == 4 * 2 * 4


def test_clean_deletes_nothing_but_runs(model, tmp_path, run: Run):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    outcome = run(many(model, tmp_path / "thesis", "--clean"))
    assert (outcome.code, "--clean deletes runs only" in outcome.err) == (2, True)
    outcome = run(many(model, tmp_path / "thesis"))
    assert (outcome.code, "is not a run folder. Choose another --out." in outcome.err) == (2, True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "precious"


def test_a_folder_has_one_writer(model, tmp_path, run: Run, fork: Fork, monkeypatch):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.05")
    out = tmp_path / "busy"
    child = fork(many(model, out))
    assert child.wait_for(lambda: line_count(out / "traces.jsonl") > 0)
    outcome = run(many(model, out, "--resume"))
    child.kill()
    child.wait()
    assert (outcome.code, "another process is writing to" in outcome.err) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_good_order(model, tmp_path, uninterrupted, run: Run, fork: Fork, monkeypatch, number):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.02")
    out = tmp_path / "interrupted"
    child = fork(many(model, out))
    assert child.wait_for(lambda: line_count(out / "traces.jsonl") >= 10)
    child.kill(number)
    assert child.wait() == 130
    assert read_json(out / "manifest.json")["status"] == "interrupted"
    monkeypatch.delenv(scripted.STEP_SECONDS)
    assert run(resume_arguments(child.errors.read_text())).code == 0
    assert results(out) == results(uninterrupted)
    assert read_json(out / "manifest.json")["status"] == "complete"


def test_a_second_ctrl_c_kills(model, tmp_path, fork: Fork, monkeypatch):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.5")
    out = tmp_path / "impatient"
    child = fork(many(model, out))
    assert child.wait_for(lambda: line_count(out / "engine.jsonl") > 0)
    child.kill(signal.SIGINT)
    assert child.wait_for(lambda: "press Ctrl-C again" in child.errors.read_text())
    child.kill(signal.SIGINT)
    assert child.wait() == -signal.SIGINT


def start_dying(plan: Plan, log: Path) -> Engine:
    return ScriptedEngine(scripted.Model(plan), plan.max_model_len, max_running=8, fail_at_step=60)


def test_an_engine_that_dies(model, tmp_path, uninterrupted, run: Run):
    out = tmp_path / "dead"
    outcome = run(many(model, out), lambda words: evaluate(*parse(words), start_dying))
    stored = len(keys(out))
    assert outcome.code == 1
    assert 0 < stored < 192
    assert "error: the scripted engine died in step 60" in outcome.err
    assert f"{stored} of 192 samples are on disk; log: {out}/run.log" in outcome.err
    assert "Traceback" not in outcome.err
    log = (out / "run.log").read_text()
    assert "Traceback" in log
    assert "died in step 60" in log
    assert read_json(out / "manifest.json")["status"] == "failed"
    assert run(resume_arguments(outcome.err)).code == 0
    assert results(out) == results(uninterrupted)


def test_an_engine_that_cannot_start(model, tmp_path, run: Run):
    def refuse(plan: Plan, log: Path) -> Engine:
        raise EngineError("one request needs 9 GiB of KV cache and there are 2")

    outcome = run(many(model, tmp_path / "run"), lambda words: evaluate(*parse(words), refuse))
    assert outcome.code == 1
    assert "error: one request needs 9 GiB" in outcome.err
    assert "0 of 192 samples are on disk" in outcome.err


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def test_a_disk_that_takes_no_more(model, tmp_path, uninterrupted, run: Run, fork: Fork):
    out = tmp_path / "full"
    child = fork(many(model, out), limit_file_size)
    assert child.wait() == 1
    errors = child.errors.read_text()
    assert f"error: cannot write to {out}: {os.strerror(errno.EFBIG)}. What was written is intact." in errors
    assert "Traceback" not in errors
    assert 0 < len(keys(out)) < 192
    assert run(resume_arguments(errors)).code == 0
    assert results(out) == results(uninterrupted)


def test_a_full_disk(model, tmp_path, uninterrupted, run: Run):
    small, out = tmp_path / "small", tmp_path / "small" / "run"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", small], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        outcome = run(many(model, out))
        assert outcome.code == 1
        assert f"cannot write to {out}: {os.strerror(errno.ENOSPC)}. What was written is intact." in outcome.err
        stored = keys(out)
        subprocess.run(["mount", "-o", "remount,size=16m", small], check=True)
        assert stored
        assert run(resume_arguments(outcome.err)).code == 0
        assert results(out) == results(uninterrupted)
    finally:
        subprocess.run(["umount", small], check=True)
