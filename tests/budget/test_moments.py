from __future__ import annotations

import pytest

from reasoning.budget.moments import Moments
from reasoning.budget.trace import Trace
from reasoning.prompts import ThinkMarkers

OPEN, CLOSE = 1, 2


def arrive(moments: Moments, trace: Trace, ids: list[int], times: list[float], final: bool = False) -> None:
    before = len(trace.ids)
    trace.extend(tuple(ids))
    while trace.advance(final) is not None:
        pass
    moments.note(trace, before, times)


@pytest.fixture
def trace() -> Trace:
    return Trace(ThinkMarkers((OPEN,), (CLOSE,)), inside=True, allowance=100)


def test_the_answer_begins_behind_the_closing_marker(trace):
    moments = Moments(requested_s=10.0)
    arrive(moments, trace, [50, 51, 52], [0.1, 0.2, 0.3])
    assert (moments.first_s, moments.answer_s) == (10.1, None)
    arrive(moments, trace, [53, CLOSE, 60, 61], [0.4, 0.5, 0.6, 0.7])
    assert (moments.first_s, moments.answer_s) == (10.1, pytest.approx(10.6))
    arrive(moments, trace, [62], [0.8])
    assert moments.answer_s == pytest.approx(10.6)


def test_a_closing_marker_at_the_end_of_an_output_leaves_the_answer_to_the_next(trace):
    moments = Moments()
    arrive(moments, trace, [50, CLOSE], [0.1, 0.2])
    assert moments.answer_s is None
    arrive(moments, trace, [60, 61], [0.3, 0.4])
    assert moments.answer_s == 0.3


def test_a_section_that_opens_again_makes_another_answer(trace):
    moments = Moments()
    arrive(moments, trace, [50, CLOSE, 60, OPEN, 51], [0.1, 0.2, 0.3, 0.4, 0.5])
    arrive(moments, trace, [CLOSE, 61], [0.6, 0.7])
    assert (moments.first_s, moments.answer_s) == (0.1, 0.7)


def test_a_request_that_goes_on_counts_from_the_first_one(trace):
    moments = Moments()
    arrive(moments, trace, [50, 51], [0.1, 0.2])
    moments.requested_s = 5.0
    arrive(moments, trace, [CLOSE, 60], [0.1, 0.2])
    assert (moments.first_s, moments.answer_s) == (0.1, 5.2)
