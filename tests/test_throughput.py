from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.engine.steps import Steps
from reasoning.throughput import (
    StepTime,
    Traffic,
    between_tokens,
    bytes_per_second,
    fit_steps,
    group_steps,
    join,
    percentiles,
    speeds,
)

WEIGHTS, TOKEN, BANDWIDTH = 16e9, 131_072, 4e12  # bytes, bytes of cache, bytes a second
HOST, PER_REQUEST = 1e-3, 2e-5  # seconds


def truth(batch: float, context: float) -> float:
    return HOST + PER_REQUEST * batch + (WEIGHTS + TOKEN * context) / BANDWIDTH


def noisy_run(seed: int, *, slow: float = 0.03) -> Steps:
    """A batch that shrinks while its contexts grow; 2 % noise, some steps three times as slow, prompts now and then."""
    draw = np.random.default_rng(seed)
    steps = Steps()
    for position in range(200, 50_000, 10):
        batch = max(1, round(64 * (1 - position / 60_000)))
        seconds = truth(batch, batch * position) * draw.normal(1, 0.02) * (3 if draw.random() < slow else 1)
        prefill = 8192 if draw.random() < 0.02 else 0
        steps.append(seconds + prefill * 1e-4, batch, batch * position, int(prefill > 0), prefill)
    return steps


@pytest.mark.parametrize("seed", range(5))
def test_the_line_is_recovered_within_three_percent(seed):
    line = fit_steps(group_steps(noisy_run(seed)))
    fixed = HOST + WEIGHTS / BANDWIDTH
    assert line.token_s == pytest.approx(TOKEN / BANDWIDTH, rel=0.03)
    # The batch hardly moves against the context here: what is told apart well is the sum.
    assert line.seconds(64, 64 * 10_000) == pytest.approx(truth(64, 64 * 10_000), rel=0.01)
    assert line.fixed_s + 32 * line.request_s == pytest.approx(fixed + 32 * PER_REQUEST, rel=0.03)
    assert line.error < 0.02


def test_intercept_slope_and_share_of_a_request_from_a_grid():
    draw = np.random.default_rng(0)
    cells = [
        StepTime(batch, batch * context, truth(batch, batch * context) * draw.normal(1, 0.005), 40)
        for batch in (1, 16, 64)
        for context in (1_000, 10_000, 50_000)
    ]
    line = fit_steps(cells)
    assert line.fixed_s == pytest.approx(HOST + WEIGHTS / BANDWIDTH, rel=0.03)
    assert line.token_s == pytest.approx(TOKEN / BANDWIDTH, rel=0.03)
    assert line.request_s == pytest.approx(PER_REQUEST, rel=0.3)


def test_one_batch_leaves_its_share_in_the_fixed_time():
    cells = [StepTime(16, 16 * context, truth(16, 16 * context), 40) for context in (1_000, 10_000, 50_000)]
    line = fit_steps(cells)
    assert line.request_s == 0
    assert line.fixed_s == pytest.approx(truth(16, 0), rel=1e-6)
    assert line.error < 1e-6


def test_no_line_through_too_little():
    same = [StepTime(batch, 1000, 0.01, 9) for batch in (1, 2, 4)]
    assert fit_steps(same) is None
    assert fit_steps([StepTime(1, 10, 0.1, 9), StepTime(1, 20, 0.2, 9)]) is None


def test_time_that_falls_with_context_is_no_negative_bandwidth():
    line = fit_steps([StepTime(4, 4 * context, 0.02 - context * 1e-7, 9) for context in (1000, 2000, 4000, 8000)])
    assert line.token_s == 0
    assert line.fixed_s == pytest.approx(0.02, rel=0.05)


def small_run() -> Steps:
    steps = Steps()
    steps.append(0.5, batch=2, context=0, prompts=2, prefill=300)  # both prompts
    steps.append(0.01, batch=2, context=200, prompts=0, prefill=0)
    steps.append(0.02, batch=2, context=202, prompts=0, prefill=0)
    steps.append(0.04, batch=2, context=204, prompts=0, prefill=0)
    steps.append(0.03, batch=3, context=206, prompts=1, prefill=50)  # a third one is computed beside them
    steps.append(0.02, batch=8, context=8000, prompts=0, prefill=0)
    return steps


def test_speed_is_that_of_the_median_step_and_no_prompt_is_in_it():
    two, eight = speeds(small_run(), Traffic(1000, lambda tokens: 10 * tokens))
    assert (two.batch_low, two.batch_high, two.steps, two.seconds) == (2, 2, 3, pytest.approx(0.07))
    assert two.position == pytest.approx(101)
    assert two.tokens_per_s == pytest.approx(2 / 0.02)
    assert two.step_bytes == pytest.approx(1000 + 2 * 10 * 101)
    assert (eight.batch, eight.position, eight.tokens_per_s) == (8, 1000, pytest.approx(400))
    moved = 3 * 3020 + (1000 + 8 * 10 * 1000)
    assert bytes_per_second([two, eight]) == pytest.approx(moved / 0.09)


def test_unknown_bytes_give_no_rate():
    assert bytes_per_second(speeds(small_run(), None)) is None
    assert bytes_per_second([]) is None


def test_a_token_waits_for_the_whole_step_it_is_made_in():
    # 2 after 10 ms, 2 and 8 after 20, 2 beside the third prompt after 30, 2 after 40; three first tokens do not count.
    assert between_tokens(small_run()) == {"p50": 0.02, "p90": 0.04, "p99": 0.04}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], (3.0, 3.0, 3.0)),
        (list(range(1, 101)), (50, 90, 99)),
        ([5, 1, 4, 2, 3], (3, 5, 5)),
    ],
)
def test_percentiles_by_hand(values, expected):
    assert tuple(percentiles(values).values()) == expected


def test_no_values_have_no_percentiles():
    assert percentiles([]) == between_tokens(Steps()) == {}


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5)), min_size=1, max_size=40))
def test_weights_count_as_repeats(rows):
    values, weights = [value for value, _ in rows], np.array([weight for _, weight in rows], float)
    repeated = [value for value, weight in rows for _ in range(weight)]
    assert percentiles(values, weights) == percentiles(repeated)


def test_groups_hold_every_decoding_step_once():
    run = noisy_run(0)
    groups = group_steps(run)
    assert sum(group.steps for group in groups) == sum(prefill == 0 for prefill in run.prefill)
    assert len(groups) < len(run) / 10


def test_joined_steps_keep_their_order():
    one, two = Steps([1], [2], [3], [0], [0]), Steps([5, 6], [7, 8], [9, 10], [0, 1], [0, 9])
    assert join([one, two]) == Steps([1, 5, 6], [2, 7, 8], [3, 9, 10], [0, 0, 1], [0, 0, 9])
    assert len(join([])) == 0
