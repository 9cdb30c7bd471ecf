"""The section `throughput` of a profiled run, its rows, and its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eval.throughput import duration, latency_rows, line_in_words, speed_rows, throughput_of
from eval.throughput_plots import latencies, speed_by_position, step_times
from reasoning.engine.steps import Steps
from reasoning.throughput import StepLine, Traffic
from tests.eval.test_gallery import numbers, sample

COPY_RATE, WEIGHTS, TOKEN = 1e9, 1e6, 1000.0
SAMPLES = [
    replace(sample(task, 0, budget), first_s=0.1 * (1 + task), answer_s=wait)
    for task in range(4)
    for budget, wait in ((16, 1.0 + task), (64, None if task else 9.0))
]


def steps() -> Steps:
    """Batches of 1, 8 and 64, each at contexts from 100 to 3,200 tokens a request; a step is half as fast as memory."""
    found = Steps()
    for batch in (1, 8, 64):
        for position in (100, 200, 400, 800, 1600, 3200):
            seconds = 2 * (WEIGHTS + TOKEN * batch * position) / COPY_RATE
            for _ in range(6):
                found.append(seconds, batch, batch * position, prompts=0, prefill=0)
    found.append(3.0, 64, 0, prompts=64, prefill=6400)
    return found


def built(**changes):
    arguments = {"device": "a device", "copy_rate": COPY_RATE, "prefix_hit_rate": 0.25} | changes
    traffic = arguments.pop("traffic", Traffic(WEIGHTS, lambda tokens: TOKEN * tokens))
    return throughput_of(steps(), SAMPLES, traffic=traffic, **arguments)


def test_the_line_the_rates_and_the_counts():
    found = built()
    assert (found.steps, found.decoding_steps) == (109, 108)
    assert found.utilisation == pytest.approx(0.5, rel=0.01)
    assert found.line.fixed_s == pytest.approx(2 * WEIGHTS / COPY_RATE, rel=0.03)
    assert found.line.token_s == pytest.approx(2 * TOKEN / COPY_RATE, rel=0.03)


def test_a_sample_waits_once_for_its_first_token_and_at_each_budget_for_its_answer():
    found = built()
    assert found.first_token_s == pytest.approx({"p50": 0.2, "p90": 0.4, "p99": 0.4})
    assert found.answer_s == {"16": {"p50": 2.0, "p90": 4.0, "p99": 4.0}, "64": {"p50": 9.0, "p90": 9.0, "p99": 9.0}}
    assert [row[0] for row in latency_rows(found)] == [
        "first token", "first answer token at 16", "first answer token at 64", "from one token to the next",
    ]  # fmt: skip
    assert latency_rows(found)[0][1:] == ("200 ms", "400 ms", "400 ms")


def test_what_is_not_known_is_not_said():
    rows = dict(speed_rows(built()))
    assert rows["the device copies its memory at"] == "1 GB/s"
    assert rows["of that, decoding read weights and cache at"] == "50 %"
    assert rows["prompt tokens found in the prefix cache"] == "25 %"
    bare = built(traffic=None, copy_rate=None, prefix_hit_rate=None)
    assert bare.utilisation is None
    assert list(dict(speed_rows(bare))) == [
        "steps, of which only decoded", "a step takes", "median error of that line",
    ]  # fmt: skip


def test_times_in_units_that_suit_them():
    assert [duration(s) for s in (12.345, 1.0, 0.0123, 4.5e-5)] == ["12.3 s", "1 s", "12.3 ms", "45 µs"]
    assert line_in_words(StepLine(0.002, 0.0, 3e-8, 0.01, 9)) == "2 ms + 30 µs a thousand tokens of context"


def test_figures_hold_the_numbers_and_the_limit_of_the_memory(tmp_path):
    found = built()
    lines = numbers(speed_by_position(found, tmp_path / "s", note=""))["lines"]
    assert [line["points"][0]["batch"] for line in lines] == [64, 8, 1]
    first = lines[0]["points"][0]
    assert first["position"] == pytest.approx(100)
    assert first["tokens_per_s"] == pytest.approx(64 / (2 * (1e6 + 64e5) / 1e9))
    times = numbers(step_times(found, tmp_path / "t", note=""))
    assert len(times["points"]) == 18
    assert times["line"]["token_s"] == found.line.token_s
    waits = numbers(latencies(found, tmp_path / "l", note=""))["seconds"]
    assert waits["first token"] == pytest.approx({"p50": 0.2, "p90": 0.4, "p99": 0.4})


def test_no_figure_without_data(tmp_path):
    empty = throughput_of(Steps(), [], device="d", copy_rate=None, traffic=None, prefix_hit_rate=None)
    for draw in (speed_by_position, step_times, latencies):
        assert draw(empty, tmp_path / "x", note="") == []
        assert draw(None, tmp_path / "x", note="") == []
    assert not list(tmp_path.iterdir())
