"""The benchmarks of the sandbox: what they run is what they say, and a leak or a wrong verdict is seen."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import sandbox_canonical, sandbox_stress
from benchmarks.cpu_time import cpu_clock
from benchmarks.sandbox_programs import CLEAN, HOSTILE, STUBBORN, STUBS, mix
from verifiers.sandbox import Outcome, Report, TestResult, Tier

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "code"


def test_the_mix_is_what_was_asked_for():
    jobs = list(mix(400, 0.05, seed=1))
    assert len({job.program for job in jobs}) == 400
    assert sum(job.hostile for job in jobs) == 20
    kinds = Counter(job.kind for job in jobs)
    assert set(kinds) == {*CLEAN, *HOSTILE}
    assert jobs == list(mix(400, 0.05, seed=1)) != list(mix(400, 0.05, seed=2))
    assert not any(Outcome.PASS in job.right for job in jobs if job.kind in STUBS)
    assert sorted(STUBBORN) == sorted(HOSTILE)
    stubborn = list(mix(400, 0.05, seed=1, stubborn=True))
    assert {new.kind for new, old in zip(stubborn, jobs, strict=True) if new != old} == {"endless loop", "sleep"}


def report(outcome: Outcome, seconds: float = 0.0) -> Report:
    return Report(outcome, (TestResult(outcome, seconds),), Tier.FULL, "split", seconds)


def test_a_wrong_verdict_is_counted():
    jobs = [job for job in mix(16, 0.0, seed=0) if job.kind == "call right"]
    reports = [report(Outcome.PASS), report(Outcome.SANDBOX_ERROR)]
    assert sandbox_stress.surprises(jobs[:2], reports) == {"call right: sandbox_error": 1}
    assert sandbox_stress.others([report(Outcome.PASS)] * 2, reports) == 1
    late = [report(Outcome.TIMEOUT, 3.0), report(Outcome.PASS, 5.0), report(Outcome.TIMEOUT, 1.0)]
    assert sandbox_stress.to_the_deadline(late, workers=2) == 2.0


def test_what_is_left_over_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox_stress, "FOLDERS", (str(tmp_path),))
    before = sandbox_stress.held()
    assert "descriptors" not in sandbox_stress.left_over(before, sandbox_stress.held())
    with (tmp_path / "left").open("w"):
        left = sandbox_stress.left_over(before, sandbox_stress.held())
    assert left["files"] == [str(tmp_path / "left")]
    assert left["descriptors"] == 1


def test_a_small_stress_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox_stress, "FOLDERS", (str(tmp_path),))
    out = tmp_path / "record.json"
    options = ["--programs", "24", "--hostile", "0.25", "--again", "6", "--timeout", "1", "--json", str(out)]
    assert sandbox_stress.main(options) == 0
    record = json.loads(out.read_text())
    assert (record["programs"], record["hostile"], record["not_right"], record["left_over"]) == (24, 6, {}, {})
    assert sum(record["outcomes"].values()) == 24


def test_canonical_solutions_and_stubs(tmp_path):
    humaneval, mbpp = SHARED / "HumanEval.jsonl", SHARED / "mbpp_sanitized.jsonl"
    if not (humaneval.exists() and mbpp.exists()):
        pytest.skip("the data sets are not there")
    out = tmp_path / "record.json"
    options = ["--humaneval", str(humaneval), "--mbpp", str(mbpp), "--limit", "8", "--json", str(out)]
    assert sandbox_canonical.main(options) == 0
    for record in json.loads(out.read_text())["sets"]:
        assert record["canonical"]["passed"] == record["problems"] == 8
        assert [record[stub]["passed"] for stub in STUBS] == [0] * len(STUBS)


def test_processor_time_of_others_is_counted():
    clock, _ = cpu_clock()
    before = clock()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"], check=True)
    assert 0.4 < clock() - before < 5
