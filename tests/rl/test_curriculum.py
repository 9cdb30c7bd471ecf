"""Draws of tasks: fair, the same again, and where there is something to learn."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.curriculum import FLOOR, PassRates, TaskSampler, refill

IDS = [f"task-{index}" for index in range(10)]


def sampler(curriculum: bool, seed: int = 1) -> TaskSampler:
    return TaskSampler(IDS, seed, group_size=4, curriculum=curriculum)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10), min_size=1, max_size=30), st.integers(0, 5))
def test_every_epoch_has_every_task_once(counts: list[int], seed: int) -> None:
    """No task is dropped because draws do not divide an epoch, and none is twice in a draw."""
    tasks = sampler(False, seed)
    drawn: list[str] = []
    for count in counts:
        chosen = tasks.draw(count)
        assert len(set(chosen)) == count
        drawn += chosen
    times = Counter(drawn)
    spread = [times[task] for task in IDS]
    assert max(spread) - min(spread) <= 1
    assert tasks.epoch == len(drawn) / 10


def test_two_epochs_have_different_orders() -> None:
    tasks = sampler(False)
    first, second = tasks.draw(10), tasks.draw(10)
    assert sorted(first) == sorted(second) == sorted(IDS)
    assert first != second != IDS


def test_another_seed_draws_in_another_order() -> None:
    assert sampler(False, 1).draw(10) != sampler(False, 2).draw(10)
    assert sampler(True, 1).draw(5) != sampler(True, 2).draw(5)


@pytest.mark.parametrize("curriculum", [True, False])
@settings(deadline=None)
@given(
    before=st.lists(st.integers(1, 6), max_size=8),
    after=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    right=st.lists(st.integers(0, 4), min_size=10, max_size=10),
)
def test_restored_it_draws_what_it_would_have_drawn(
    curriculum: bool, before: list[int], after: list[int], right: list[int]
) -> None:
    """In the middle of an epoch and in a later one, through JSON, with the memory that it had."""
    tasks = sampler(curriculum)
    for count in before:
        for task in tasks.draw(count):
            tasks.rates.record(task, right[IDS.index(task)], 4)
    again = sampler(curriculum)
    again.restore(json.loads(json.dumps(tasks.state())))
    for count in after:
        chosen = tasks.draw(count)
        assert again.draw(count) == chosen
        for task in chosen:
            tasks.rates.record(task, right[IDS.index(task)], 4)
            again.rates.record(task, right[IDS.index(task)], 4)
    assert again.state() == tasks.state()


@pytest.mark.parametrize("curriculum", [True, False])
def test_a_refill_takes_other_tasks(curriculum: bool) -> None:
    for seed in range(20):
        tasks = sampler(curriculum, seed)
        tasks.draw(8)
        first = tasks.draw(4)
        assert not set(first) & set(tasks.draw(5, without=first))


def test_a_task_passed_over_comes_next() -> None:
    tasks = sampler(False)
    banned = sampler(False).draw(3)
    assert not set(tasks.draw(7, without=banned)) & set(banned)
    assert tasks.draw(3) == banned


@pytest.mark.parametrize("curriculum", [True, False])
def test_more_tasks_than_there_are(curriculum: bool) -> None:
    with pytest.raises(ValueError, match="a batch of 11 different tasks, but there are 10"):
        sampler(curriculum).draw(11)
    with pytest.raises(ValueError, match="a batch of 12 different tasks, but there are 10"):
        sampler(curriculum).draw(9, without=IDS[:3])


def test_a_task_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="1 task ids occur more than once"):
        TaskSampler(["a", "b", "a"], 0, 4, curriculum=False)


@pytest.mark.parametrize(
    ("rate", "chance"), [(0.05, 0.3366), (0.1, 0.5695), (0.3, 0.9423), (0.5, 0.9922), (0.9, 0.5695)]
)
def test_the_chance_of_a_useful_group_when_the_pass_rate_is_well_known(rate: float, chance: float) -> None:
    """1 - p^8 - (1 - p)^8."""
    rates = PassRates({"t": (rate * 1e6, 1e6)})
    assert rates.chance("t", 8) == pytest.approx(chance, abs=1e-3)


def test_the_chance_of_a_useful_group_of_a_new_task() -> None:
    """A pass rate of which nothing is known: 1 - 2 / 9."""
    assert PassRates().chance("t", 8) == pytest.approx(7 / 9)


def test_a_task_that_seems_hopeless_keeps_a_small_chance() -> None:
    assert PassRates({"t": (0.0, 1e6)}).chance("t", 8) == FLOOR


def test_older_completions_count_half_as_much_at_each_visit() -> None:
    rates = PassRates()
    rates.record("t", 0, 8)
    rates.record("t", 8, 8)
    assert rates == PassRates({"t": (8, 12)})
    rates.record("t", 0, 0)  # no verdict: nothing was learnt about it
    assert rates == PassRates({"t": (8, 12)})


def test_more_right_than_there_were_is_refused() -> None:
    with pytest.raises(ValueError, match="5 of 4 completions of task t"):
        PassRates().record("t", 5, 4)


def test_the_curriculum_prefers_tasks_between_hopeless_and_solved() -> None:
    tasks = sampler(True)
    for index, task in enumerate(IDS):
        for _ in range(50):
            tasks.rates.record(task, {0: 0, 1: 4}.get(index % 3, 2), 4)
    counts = Counter(task for _ in range(300) for task in tasks.draw(3))
    useful = [task for index, task in enumerate(IDS) if index % 3 == 2]
    others = [task for task in IDS if task not in useful]
    assert min(counts[task] for task in useful) > 2 * max(counts[task] for task in others)
    assert min(counts[task] for task in others) > 0


@settings(deadline=None)
@given(st.integers(1, 64), st.data())
def test_a_refill_is_bounded(wanted: int, data: st.DataObject) -> None:
    """It ends after the rounds that were allowed, and no round is larger than the first generation."""
    live = drawn = rounds = 0
    count = wanted
    while count:
        assert count <= wanted
        drawn += count
        live += data.draw(st.integers(0, count))
        count = refill(wanted, live, drawn, rounds, max_rounds=3)
        rounds += count > 0
    assert rounds <= 3
    assert live >= wanted or rounds == 3


def test_a_refill_asks_for_what_the_share_so_far_says() -> None:
    assert refill(8, 4, 8, 0, 2) == 8  # half were live, four are missing
    assert refill(8, 6, 8, 0, 2) == 3
    assert refill(8, 8, 8, 0, 2) == 0
    assert refill(8, 0, 8, 0, 2) == 8
    assert refill(8, 0, 8, 2, 2) == 0
