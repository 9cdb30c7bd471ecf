"""Countdown: combine every given number, each exactly once, by + - * / into a target.

The generator behind both the tasks and the training texts of the bundled model. A problem is drawn by playing:
values are whole and stay in 0..MAX_VALUE, so every problem has a solution made of such steps. Everything but the
making of `Task`s works on arrays with one problem a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reasoning.tasks.base import TaskError
from reasoning.types import Task

MAX_VALUE = 400
MAX_NUMBER = 20
MAX_TARGET = 100
LEVELS = (3, 4, 5, 6)
SPLITS = ("train", "test")
OPERATORS = "+-*/"
DEFAULT_COUNT = 64
SECOND_PLAYS = 200

_BATCH = {"train": 256, "test": 4096}  # problems drawn at once: about 250 of them are on the side that is wanted
_DRY_BATCHES = 20  # that many without a new problem: there are no more worth waiting for
_EVERY_COUNT_DIVIDES = 12  # one to four legal operators: a number below 12 modulo that count is uniform


@dataclass(frozen=True, slots=True)
class Plays:
    """Plays of n rows of c numbers: `steps` [n, c - 1, 4] holds (a, operator, b, result), `final` [n] the last result.

    Operators are indices into `OPERATORS`, and a >= b.
    """

    steps: np.ndarray
    final: np.ndarray


def random_play(numbers: np.ndarray, rng: np.random.Generator) -> Plays:
    """One uniformly random legal play for each row of `numbers` [n, c] of ints in 0..MAX_VALUE.

    Each step takes an unordered pair of the remaining values uniformly, then one of its legal operators uniformly,
    and puts the result in the place of the pair. Legal are a + b and a * b up to MAX_VALUE, a - b always, and
    a / b when b > 0 divides a, where a >= b are the pair.
    """
    values = numbers.astype(np.int32)
    n, count = values.shape
    rows = np.arange(n)
    steps = np.empty((n, count - 1, 4), dtype=np.int32)
    for step, remaining in enumerate(range(count, 1, -1)):
        lefts, rights = np.triu_indices(remaining, k=1)
        pair = rng.integers(len(lefts), size=n)
        i, j = lefts[pair], rights[pair]
        x, y = values[rows, i], values[rows, j]
        a, b = np.maximum(x, y), np.minimum(x, y)
        operator, result = _random_operation(a, b, rng)
        steps[:, step] = np.stack((a, operator, b, result), axis=1)
        values[rows, i] = result
        values[rows, j] = values[:, remaining - 1]
    return Plays(steps, values[:, 0])


def _random_operation(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A uniformly random legal operator for every pair a >= b [n], and its result [n]."""
    quotient, rest = np.divmod(a, np.maximum(b, 1))
    results = np.stack((a + b, a - b, a * b, quotient))
    legal = results <= MAX_VALUE
    legal[3] &= (rest == 0) & (b > 0)
    rank = legal.cumsum(axis=0, dtype=np.int8)
    chosen = rng.integers(_EVERY_COUNT_DIVIDES, size=len(a), dtype=np.int8) % rank[-1]
    operator = (rank <= chosen).sum(axis=0, dtype=np.int32)
    return operator, results[operator, np.arange(len(a))]


def draw_problems(level: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers [n, level] and targets [n] of n random problems, not told apart by split and perhaps repeated.

    The numbers are uniform in 1..20, with replacement. The target is the result of a random play of them, replayed
    until it lies in 1..100: every problem is solvable by construction, and a target that more plays reach is
    drawn more often.
    """
    numbers, plays = _draw_solved(level, n, rng)
    return numbers, plays.final


def _draw_solved(level: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, Plays]:
    numbers = rng.integers(1, MAX_NUMBER + 1, size=(n, level), dtype=np.int32)
    plays = random_play(numbers, rng)
    # Some play of any numbers in 1..20 ends in 1..20 (equal pairs divide, others subtract), so this ends.
    while (retry := np.flatnonzero((plays.final < 1) | (plays.final > MAX_TARGET))).size:
        again = random_play(numbers[retry], rng)
        plays.steps[retry], plays.final[retry] = again.steps, again.final
    return numbers, plays


def is_test(numbers: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Which problems are on the test side [n]: about 1 in 16, by content, whatever the order of the numbers [n, c]."""
    return _content_hash(numbers, targets) % np.uint64(16) == 0


def _content_hash(numbers: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """A stable 64-bit hash of the sorted numbers and the target (the finaliser of splitmix64, Steele et al. 2014)."""
    key = targets.astype(np.uint64)
    for column in np.sort(numbers, axis=1).T.astype(np.uint64):
        key = key * np.uint64(MAX_VALUE + 1) + column
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def found_again(numbers: np.ndarray, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which problems [n] at least one of `SECOND_PLAYS` further random plays solves."""
    plays = random_play(np.repeat(numbers, SECOND_PLAYS, axis=0), rng)
    return (plays.final.reshape(-1, SECOND_PLAYS) == targets[:, None]).any(axis=1)


def tasks(levels: Sequence[int], count: int, split: str, seed: int, prompt: str) -> list[Task]:
    """`count` different tasks of one split, levels in turn; a larger count continues a smaller one.

    A problem becomes a task if `found_again`: one that takes many thousand plays measures nobody's thinking.
    """
    if split not in SPLITS:
        raise TaskError(f"countdown has no split '{split}'; write train or test")
    if prompt not in PROMPTS:
        raise TaskError(f"'{prompt}' is not a countdown prompt; write {' or '.join(PROMPTS)}")
    if not levels or set(levels) - set(LEVELS):
        raise TaskError(f"countdown levels are how many numbers, 3 to 6; got {list(levels)}")
    streams = [_stream(level, split, seed, prompt) for level in dict.fromkeys(levels)]
    return [next(streams[index % len(streams)]) for index in range(count)]


def _stream(level: int, split: str, seed: int, prompt: str) -> Iterator[Task]:
    rng = np.random.default_rng((seed, SPLITS.index(split), level))
    seen: set[int] = set()
    dry = 0
    while dry < _DRY_BATCHES:
        numbers, plays = _draw_solved(level, _BATCH[split], rng)
        before = len(seen)
        hashes = _content_hash(numbers, plays.final)
        wanted = np.flatnonzero(is_test(numbers, plays.final) == (split == "test"))
        for row in wanted[found_again(numbers[wanted], plays.final[wanted], rng)].tolist():
            content = int(hashes[row] >> np.uint64(32))
            if content not in seen:
                seen.add(content)
                yield _task(content, numbers[row].tolist(), plays.steps[row].tolist(), prompt)
        dry = dry + 1 if len(seen) == before else 0
    raise TaskError(f"countdown has about {len(seen)} different {split} problems of {level} numbers; lower --limit")


def _task(content: int, numbers: list[int], steps: list[list[int]], prompt: str) -> Task:
    target = steps[-1][3]
    return Task(
        id=f"countdown-{len(numbers)}-{content:08x}",
        prompt=({"role": "user", "content": PROMPTS[prompt](numbers, target)},),
        reference=str(target),
        verifier="countdown",
        level=str(len(numbers)),
        meta={"numbers": numbers, "target": target, "solution": _expression(numbers, steps)},
    )


def _expression(numbers: list[int], steps: list[list[int]]) -> str:
    """The steps of one play as one infix expression. Equal values may stand in for each other."""
    parts: dict[int, list[str]] = {}
    for number in numbers:
        parts.setdefault(number, []).append(str(number))
    joined = ""
    for a, operator, b, result in steps:
        joined = f"{parts[a].pop()} {OPERATORS[operator]} {parts[b].pop()}"
        parts.setdefault(result, []).append(f"({joined})")
    return joined


def _plain_prompt(numbers: list[int], target: int) -> str:
    listed = ", ".join(map(str, numbers[:-1]))
    return (
        f"Write an arithmetic expression that equals {target}. Use each of the numbers {listed} and {numbers[-1]} "
        "exactly once, and no other number. You may use +, -, *, / and parentheses.\n"
        "End your answer with a last line that holds only the expression, in this form: \\boxed{(1 + 2) * 3}"
    )


def _compact_prompt(numbers: list[int], target: int) -> str:
    """The language of the bundled model: one token a number, and the target with its sign."""
    return " ".join(map(str, numbers)) + f" ={target}"


PROMPTS = {"plain": _plain_prompt, "compact": _compact_prompt}
