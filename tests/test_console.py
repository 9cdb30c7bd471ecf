"""What a person sees while a run goes on and at its end."""

from __future__ import annotations

import pytest

from reasoning.console import Lines, Pace, Silence, duration, print_table, start_progress
from reasoning.types import NO_LIMIT, CurvePoint

POINT = CurvePoint(
    model="m", task_set="t", method="forced answer", vote="none", budget=10_000, n_tasks=4, n_samples=1_200,
    n_missing=0, accuracy=0.725, low=0.681, high=0.7649, interval="bootstrap", tokens_mean=8_123.4,
    tokens_median=8_000.0, tokens_p95=9_999.0, thinking_mean=8_000.0, answer_mean=123.4, bound_share=0.31,
    no_answer_share=0.02, escaped_share=0.0, looped_share=0.0, wrong_share=0.2, finished_wrong_share=0.1,
    verifier_failed_share=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_600, "60 min"), (11_100, "3 h 5 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_time_left_counts_only_what_this_attempt_did():
    pace = Pace(done=90, total=100)
    assert "left" not in pace.describe(90, 0)
    assert pace.describe(95, 1_000).endswith("about 0 s left")
    assert pace.describe(100, 1_000).startswith("100 of 100 samples, ")
    assert "left" not in pace.describe(100, 1_000)


def test_a_log_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("reasoning.console.LINE_EVERY_S", 0.0)
    progress = start_progress(0, 10, quiet=False)
    assert isinstance(progress, Lines)
    progress.update(5, 100)
    progress.close()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("5 of 10 samples, ")
    assert last.startswith("5 of 10 samples, ")


def test_silence(capsys):
    progress = start_progress(0, 10, quiet=True)
    assert isinstance(progress, Silence)
    progress.update(5, 100)
    progress.close()
    assert capsys.readouterr().err == ""


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
