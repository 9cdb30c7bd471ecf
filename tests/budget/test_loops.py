import random

import pytest

from reasoning.budget.loops import LONGEST_PERIOD, WINDOW, ends_in_loop


def cycle(period: int, length: int) -> list[int]:
    return [i % period for i in range(length)]


@pytest.mark.parametrize("period", [1, 2, 7, LONGEST_PERIOD])
def test_a_cycle_that_fills_the_window_is_a_loop(period: int):
    assert ends_in_loop(cycle(period, WINDOW))
    assert ends_in_loop([*range(1000, 2000), *cycle(period, WINDOW)])


@pytest.mark.parametrize("period", [1, 2, 7, LONGEST_PERIOD])
def test_one_other_token_in_the_window_is_none(period: int):
    ids = cycle(period, WINDOW)
    for at in (0, WINDOW // 2, WINDOW - 1):
        assert not ends_in_loop([*ids[:at], 999, *ids[at + 1 :]])


def test_too_short_or_too_long_a_cycle_is_none():
    assert not ends_in_loop([])
    assert not ends_in_loop([5] * (WINDOW - 1))
    assert not ends_in_loop(cycle(LONGEST_PERIOD + 1, 10 * WINDOW))


def test_random_ids_are_none():
    rng = random.Random(0)
    assert not ends_in_loop([rng.randrange(10) for _ in range(2000)])
