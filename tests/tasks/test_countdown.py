"""The countdown generator: legal plays, solvable problems, two sides that never meet."""

import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning.tasks import TaskError, TaskSpec, load_tasks
from reasoning.tasks.countdown import (
    MAX_TARGET,
    MAX_VALUE,
    OPERATORS,
    draw_problems,
    found_again,
    is_test,
    random_play,
    tasks,
)
from verifiers import grade

LEVELS = (3, 4, 5, 6)


def replay(numbers, play):
    """The final value of a play, every step of it checked on a list of values."""
    values = list(numbers)
    for a, operator, b, result in play:
        values.remove(a)
        values.remove(b)
        assert a >= b
        match OPERATORS[operator]:
            case "+":
                assert result == a + b
            case "-":
                assert result == a - b
            case "*":
                assert result == a * b
            case "/":
                assert b > 0
                assert a == result * b
        assert 0 <= result <= MAX_VALUE
        values.append(result)
    (final,) = values
    return final


@pytest.mark.parametrize("count", [2, *LEVELS])
def test_plays_are_legal(count):
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, MAX_VALUE + 1, size=(500, count))
    plays = random_play(numbers, rng)
    assert plays.steps.shape == (500, count - 1, 4)
    finals = [replay(row, play) for row, play in zip(numbers.tolist(), plays.steps.tolist(), strict=True)]
    assert finals == plays.final.tolist()


def test_plays_are_uniform():
    """(2, 6): four legal operators. (3, 3, 9): pairs 3-3, 3-9, 3-9 of a third each, every operator but none twice."""
    rng = np.random.default_rng(1)
    n = 60_000
    two = random_play(np.tile([2, 6], (n, 1)), rng)
    assert np.bincount(two.steps[:, 0, 1], minlength=4) / n == pytest.approx([0.25] * 4, abs=0.01)
    assert sorted(set(two.final.tolist())) == [3, 4, 8, 12]
    three = random_play(np.tile([3, 3, 9], (n, 1)), rng)
    assert np.mean(three.steps[:, 0, 0] == 3) == pytest.approx(1 / 3, abs=0.01)
    none_divides = random_play(np.tile([5, 7], (n, 1)), rng)
    assert np.bincount(none_divides.steps[:, 0, 1]) / n == pytest.approx([1 / 3] * 3, abs=0.01)
    only_minus_and_divide = random_play(np.tile([300, 300], (n, 1)), rng)
    assert set(only_minus_and_divide.final.tolist()) == {0, 1}


def test_the_given_numbers_are_left_alone():
    numbers = np.array([[1, 2, 3]])
    random_play(numbers, np.random.default_rng(0))
    assert numbers.tolist() == [[1, 2, 3]]


def test_millions_of_plays_take_seconds():
    rng = np.random.default_rng(0)
    numbers = rng.integers(1, 21, size=(200_000, 4))
    started = time.process_time()
    plays = random_play(numbers, rng)
    is_test(numbers, plays.final)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize("level", LEVELS)
def test_problems_are_in_range(level):
    numbers, targets = draw_problems(level, 2000, np.random.default_rng(level))
    assert numbers.shape == (2000, level)
    assert (numbers.min(), numbers.max()) == (1, 20)
    assert targets.min() >= 1
    assert targets.max() <= MAX_TARGET


def test_sides_are_by_content_alone():
    numbers, targets = draw_problems(4, 20_000, np.random.default_rng(0))
    side = is_test(numbers, targets)
    assert side.mean() == pytest.approx(1 / 16, abs=0.01)
    assert (is_test(numbers[:, ::-1], targets) == side).all()
    assert (is_test(numbers.astype(np.int8), targets.astype(np.uint8)) == side).all()
    pinned = is_test(np.array([[3, 6, 13, 5], [9, 3, 3, 1], [1, 2, 3, 4]]), np.array([21, 7, 10]))
    assert pinned.tolist() == [True, False, False]


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32), split=st.sampled_from(["train", "test"]), prompt=st.sampled_from(["plain", "compact"])
)
def test_every_task_is_solved_by_its_solution(seed, split, prompt):
    for task in tasks(LEVELS, 8, split, seed, prompt):
        assert grade(task.verifier, task.meta["solution"], task.reference, task.meta).status == "correct"
        numbers = np.array([task.meta["numbers"]])
        assert is_test(numbers, np.array([task.meta["target"]])).item() == (split == "test")
        assert task.level == str(len(task.meta["numbers"]))
        assert re.fullmatch(rf"countdown-{task.level}-[0-9a-f]{{8}}", task.id)


def test_found_again():
    """2 and 6 make 3, 4, 8 and 12, each in one of four plays, and nothing else."""
    found = found_again(np.array([[2, 6]] * 5), np.array([3, 4, 8, 12, 5]), np.random.default_rng(0))
    assert found.tolist() == [True, True, True, True, False]


def test_levels_take_turns_and_tasks_are_unique():
    made = tasks(LEVELS, 402, "test", 0, "plain")
    assert [task.level for task in made[:5]] == ["3", "4", "5", "6", "3"]
    contents = {(tuple(sorted(task.meta["numbers"])), task.meta["target"]) for task in made}
    assert len({task.id for task in made}) == len(contents) == 402


def test_a_larger_count_continues_a_smaller_one():
    assert tasks((4, 6), 10, "test", 3, "plain") == tasks((4, 6), 500, "test", 3, "plain")[:10]
    assert tasks((4,), 10, "test", 3, "plain") != tasks((4,), 10, "test", 4, "plain")


def test_prompts():
    (compact,) = tasks((4,), 1, "test", 0, "compact")
    (plain,) = tasks((4,), 1, "test", 0, "plain")
    a, b, c, d = compact.meta["numbers"]
    target = compact.meta["target"]
    assert compact.prompt == ({"role": "user", "content": f"{a} {b} {c} {d} ={target}"},)
    assert plain.id == compact.id
    assert f"equals {target}" in plain.prompt[0]["content"]
    assert f"{a}, {b}, {c} and {d}" in plain.prompt[0]["content"]


def test_defaults():
    made = load_tasks(TaskSpec("countdown"))
    assert len(made) == 64
    assert {task.level for task in made} == {"3", "4", "5", "6"}
    assert len(load_tasks(TaskSpec("countdown", limit=10, levels=(5,)))) == 10


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TaskSpec("countdown", split="dev"), "no split 'dev'; write train or test"),
        (TaskSpec("countdown", levels=(3, 7)), "3 to 6"),
        (TaskSpec("countdown", levels=()), "3 to 6"),
        (TaskSpec("countdown", prompt="terse"), "plain or compact"),
        (TaskSpec("countdown", limit=0), "at least 1"),
        (TaskSpec("countdown", path="x.jsonl"), "own problems"),
        (TaskSpec("countdown", verifier="math"), "own problems"),
        (TaskSpec("countdown", levels=(3,), limit=100_000), "different test problems of 3 numbers; lower --limit"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(TaskError, match=message):
        load_tasks(spec)
