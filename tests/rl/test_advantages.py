"""Advantages by hand, and what must not change them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.advantages import group_advantages, weighted_sum

NAN = math.nan


def values(rewards: list[float], scale: str = "group") -> list[float]:
    """Advantages of one group."""
    return group_advantages(np.array(rewards), ["task"] * len(rewards), len(rewards), scale).values.tolist()


@pytest.mark.parametrize(
    ("rewards", "scale", "expected"),
    [
        ([1, 0, 0, 0], "group", [1.4997, -0.4999, -0.4999, -0.4999]),
        ([1, 0, 0, 0], "none", [0.75, -0.25, -0.25, -0.25]),
        ([1, 1, 0, 0], "group", [0.865875, 0.865875, -0.865875, -0.865875]),
        ([1, 0, 0, 0, 0, 0, 0, 0], "group", [2.474174] + [-0.353453] * 7),
        ([1, NAN, 0, 0], "group", [1.154501, 0, -0.577250, -0.577250]),
        ([1, NAN, 0, 0], "none", [2 / 3, 0, -1 / 3, -1 / 3]),
    ],
)
def test_by_hand(rewards: list[float], scale: str, expected: list[float]) -> None:
    assert values(rewards, scale) == pytest.approx(expected, abs=5e-7 if scale == "none" else 1e-6)


def test_the_deviation_divides_by_one_less_than_the_group() -> None:
    """With the population's deviation and a small epsilon it would be 1.732051."""
    assert values([1, 0, 0, 0])[0] == pytest.approx(0.75 / (0.5 + 1e-4), abs=1e-9)


def test_one_deviation_for_the_whole_batch() -> None:
    rewards = np.array([1.0, 0.0, 0.6, 0.4, NAN, 0.3])
    found = group_advantages(rewards, ["a", "a", "b", "b", "c", "c"], 2, "batch")
    deviation = np.std([1.0, 0.0, 0.6, 0.4, 0.3], ddof=1) + 1e-4
    assert found.values == pytest.approx([0.5 / deviation, -0.5 / deviation, 0.1 / deviation, -0.1 / deviation, 0, 0])


@pytest.mark.parametrize(
    "rewards", [[1, 1, 1, 1], [0, 0, 0, 0], [0.1] * 4, [NAN] * 4, [NAN, NAN, NAN, 1], [0.1 + 0.2, 0.3, 0.3, NAN]]
)
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_a_group_without_two_different_rewards_is_dead(rewards: list[float], scale: str) -> None:
    both = group_advantages(np.array([*rewards, 1, 0, 0, 0]), ["dead"] * 4 + ["live"] * 4, 4, scale)
    assert both.dead.tolist() == [True] * 4 + [False] * 4
    assert both.values[:4].tolist() == [0, 0, 0, 0]
    assert (both.values[4:] != 0).all()


def test_a_small_difference_is_a_difference() -> None:
    assert values([0.5, 0.5 + 1e-6], "none") == pytest.approx([-5e-7, 5e-7])


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 1.0, NAN]), min_size=12, max_size=12), st.permutations(range(12)))
def test_the_order_in_which_completions_come_does_not_matter(rewards: list[float], order: list[int]) -> None:
    groups = [index // 4 for index in range(12)]
    straight = group_advantages(np.array(rewards), groups, 4)
    shuffled = group_advantages(np.array(rewards)[order], [groups[index] for index in order], 4)
    np.testing.assert_allclose(shuffled.values, straight.values[order], rtol=1e-12, atol=1e-15)
    assert (shuffled.dead == straight.dead[order]).all()


@settings(deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=8, max_size=8))
def test_a_group_is_not_touched_by_another(rewards: list[float]) -> None:
    """So processes may each handle their own groups, or all of them and take their slice."""
    together = group_advantages(np.array(rewards), ["a"] * 4 + ["b"] * 4, 4)
    for part in (slice(0, 4), slice(4, 8)):
        alone = group_advantages(np.array(rewards[part]), ["x"] * 4, 4)
        assert alone.values.tolist() == together.values[part].tolist()


def test_half_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="group 'b' has 3 completions, not num_generations = 4"):
        group_advantages(np.zeros(7), ["a"] * 4 + ["b"] * 3, 4)


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="group 'a' has 8 completions, not num_generations = 4"):
        group_advantages(np.zeros(8), ["a"] * 8, 4)


def test_names_that_do_not_go_with_the_rewards_are_refused() -> None:
    with pytest.raises(ValueError, match="4 rewards, but 3 group names"):
        group_advantages(np.zeros(4), ["a"] * 3, 4)


def test_a_missing_reward_is_left_out_of_the_sum_and_is_not_zero() -> None:
    rewards = np.array([[1.0, 0.5], [NAN, 0.5], [1.0, NAN], [NAN, NAN]])
    assert weighted_sum(rewards, [1.0, 0.5]).tolist() == pytest.approx([1.25, 0.25, 1.0, NAN], nan_ok=True)


def test_one_weight_a_reward() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 2\) do not go with 1 weights"):
        weighted_sum(np.zeros((3, 2)), [1.0])
