"""What a person sees while a run goes on and at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reasoning.console import Lines, Pace, Silence, command_line, duration, print_table, start_progress
from reasoning.types import NO_LIMIT, CurvePoint

POINT = CurvePoint(
    model="m", task_set="t", method="forced answer", vote="none", budget=10_000, n_tasks=4, n_samples=1_200,
    n_missing=0, accuracy=0.725, low=0.681, high=0.7649, band_low=0.67, band_high=0.78, interval="wilson",
    tokens_mean=8_123.4, tokens_median=8_000.0, tokens_p95=9_999.0, thinking_mean=8_000.0, answer_mean=123.4,
    bound_share=0.31, no_answer_share=0.02, escaped_share=0.0, looped_share=0.0, wrong_share=0.2,
    finished_wrong_share=0.1, verifier_failed_share=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_600, "60 min"), (11_100, "3 h 5 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_time_left_is_the_steps_to_come_times_the_mean_step(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("reasoning.console.time.monotonic", lambda: clock[0])
    pace = Pace(100, lambda: 530)
    clock[0] += 4.0
    assert pace.describe(90, 1_000, 40) == "90 of 100 samples, 250 tokens/s, at most 53 s left"


def test_no_time_left_before_it_can_be_told_nor_when_nothing_is_left():
    pace = Pace(100, lambda: 530)
    assert "left" not in pace.describe(90, 1_000, 19)
    assert "left" in pace.describe(90, 1_000, 20)
    assert "left" not in pace.describe(100, 1_000, 20)


def test_where_a_policy_decides_nobody_knows_how_many_samples_there_will_be():
    assert Pace(100, None).describe(90, 1_000, 40).startswith("90 of at most 100 samples, ")
    assert "left" not in Pace(100, None).describe(90, 1_000, 40)


def no_bound() -> int:
    raise AssertionError("nothing is shown, nothing has to be reckoned")


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    progress = start_progress(0, 10, no_bound, quiet=False)
    assert isinstance(progress, Lines)
    progress.update(4, 90, 30)
    monkeypatch.setattr("reasoning.console.LINE_EVERY_S", 0.0)
    progress = start_progress(0, 10, lambda: 7, quiet=False)
    progress.update(5, 100, 30)
    progress.close()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("5 of 10 samples, ")
    assert last.startswith("5 of 10 samples, ")


def test_silence(capsys):
    progress = start_progress(0, 10, no_bound, quiet=True)
    assert isinstance(progress, Silence)
    progress.update(5, 100, 30)
    progress.close()
    assert capsys.readouterr().err == ""


@pytest.fixture
def environment(tmp_path, monkeypatch) -> Path:
    """A virtual environment in the current folder, whose interpreter is this one."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr("sys.executable", str(programs / "python"))
    monkeypatch.chdir(tmp_path)
    return programs


def test_a_command_names_python_where_that_is_this_interpreter(environment, monkeypatch):
    monkeypatch.setenv("PATH", str(environment))
    assert command_line("reasoning.score", "a run") == "python -m reasoning.score 'a run'"


@pytest.mark.parametrize("path", ["nowhere", "other"])
def test_a_command_names_the_environment_that_is_not_active(environment, tmp_path, monkeypatch, path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setenv("PATH", str(tmp_path / path))
    assert command_line("reasoning.score", "run") == ".venv/bin/python -m reasoning.score run"
    monkeypatch.chdir(tmp_path / "other")
    assert command_line("reasoning.score", "run") == f"{environment}/python -m reasoning.score run"


def test_the_table_keeps_its_width_in_a_pipe(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table([POINT])
    heading = capsys.readouterr().out.strip().splitlines()[0].split()
    assert " ".join(heading) == "budget tokens spent accuracy [95 % interval] bound no answer samples"


def test_the_table(capsys):
    empty = {"budget": NO_LIMIT, "n_samples": 0, "accuracy": float("nan"), "low": float("nan"), "high": float("nan")}
    print_table([POINT, CurvePoint(**{name: getattr(POINT, name) for name in CurvePoint.__slots__} | empty)])
    heading, _, *rows = [line.split() for line in capsys.readouterr().out.strip().splitlines()]
    assert " ".join(heading) == "budget tokens spent accuracy [95 % interval] bound no answer samples"
    assert " ".join(rows[0]) == "10k 8,123 72.5 % [68.1, 76.5] 31 % 2 % 1,200"
    assert " ".join(rows[1]) == "none - - - - 0"
