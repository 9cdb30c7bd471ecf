"""Training texts of the bundled model: random search with a second look, as arrays of token ids.

A document of c numbers, one token a word (`rl.vocabulary`):

    <|user|> 7 3 12 5 =24 <|assistant|> <think>           the problem
    7 3 12 5 12 + 7 =19 5 * 3 =15 19 - 15 =4 =24 no       an attempt: the numbers again, one random legal play, its
    ...                                                   result beside the target, and whether they are equal
    7 3 12 5 ... =24 =24 yes                              an attempt that looks right
    check 7 3 12 5 ... =24 =24 ok                         the second look: the problem and the play, computed once more
    </think> 12 + 7 =19 ... =24 <|end|>                   the play is the answer

What the model must not learn is left out of the loss: the problem, the slips that some attempts get so that the second
look has something to find (`bad`, and the search goes on), and the closing marker where a budget ended the thinking.
Attempts never depend on whether they succeed, so the model learns to search and to compute, not to wish for the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reasoning.tasks.countdown import MAX_NUMBER, MAX_TARGET, MAX_VALUE, draw_problems, is_test, random_play
from rl.packing import Document
from rl.vocabulary import ID, NUMBER_0, OPERATOR_0, RESULT_0

CLOSE = np.array([ID["</think>"]])


@dataclass(frozen=True, slots=True)
class TraceMix:
    """Shares of documents.

    `slipped` have one attempt that looks right by a slip. In `forced` a budget ends the thinking at a random token; the
    answer is then the attempt just found right, or else a fresh guess. `open_target` have a target uniform in 1..400,
    often out of reach, so that long searches occur.
    """

    slipped: float = 0.15
    forced: float = 0.06
    open_target: float = 0.0


@dataclass(frozen=True, slots=True)
class _Text:
    """A stretch of a document: ids and which of them are taught, both [length]."""

    ids: np.ndarray
    taught: np.ndarray

    def __getitem__(self, part: slice) -> _Text:
        return _Text(self.ids[part], self.taught[part])


def documents(level: int, count: int, limit: int, mix: TraceMix, rng: np.random.Generator) -> Iterator[Document]:
    """Up to `count` documents of `level` numbers, none longer than `limit` tokens.

    Problems of the test split are left out.
    """
    numbers, target = draw_problems(level, count, rng)
    beyond = rng.random(count) < mix.open_target
    target = np.where(beyond, rng.integers(1, MAX_VALUE + 1, count), target)
    slips, target = _slips(numbers, target, rng.random(count) < mix.slipped, rng)
    attempts, solutions = _search(numbers, target, limit // attempt_length(level) + 1, rng)
    checks = _checks(numbers, np.maximum(solutions, 0), target)
    guesses = random_play(numbers, rng).steps
    forced = rng.random(count) < mix.forced
    for row in np.flatnonzero(~is_test(numbers, target)).tolist():
        thinking = [_taught(attempts[row])]
        if row in slips:
            at = attempt_length(level) * int(rng.integers(len(attempts[row]) // attempt_length(level)))
            thinking = [thinking[0][:at], *slips[row], thinking[0][at:]]
        solution = solutions[row] if solutions[row, 0, 0] >= 0 else None
        search = _join(thinking)
        whole = search if solution is None else _join([search, _taught(checks[row])])
        if forced[row]:
            cut = int(rng.integers(min(len(whole.ids), limit) + 1))
            found = solution is not None and cut >= len(search.ids)
            rest = [
                whole[:cut],
                _untaught(CLOSE),
                _answer(solution if found and solution is not None else guesses[row]),
            ]
        else:
            rest = [whole] if solution is None else [whole, _taught(CLOSE), _answer(solution)]
        document = _join([_untaught(_prompt(numbers[row], int(target[row]))), *rest])[:limit]
        yield Document(document.ids, document.taught)


def _taught(ids: np.ndarray) -> _Text:
    return _Text(ids, np.ones(len(ids), bool))


def _untaught(ids: np.ndarray) -> _Text:
    return _Text(ids, np.zeros(len(ids), bool))


def _join(parts: list[_Text]) -> _Text:
    return _Text(np.concatenate([part.ids for part in parts]), np.concatenate([part.taught for part in parts]))


def _answer(steps: np.ndarray) -> _Text:
    return _taught(np.append(_step_ids(steps[None])[0], ID["<|end|>"]))


def attempt_length(level: int) -> int:
    """Tokens of an attempt: c numbers, c - 1 steps of four tokens, the target, the verdict."""
    return 5 * level - 2


def _prompt(numbers: np.ndarray, target: int) -> np.ndarray:
    ends = ([ID["<|user|>"]], NUMBER_0 + numbers, [RESULT_0 + target, ID["<|assistant|>"], ID["<think>"]])
    return np.concatenate(ends).astype(np.int64)


def _step_ids(steps: np.ndarray) -> np.ndarray:
    """Token ids [n, 4 (c - 1)] of steps [n, c - 1, 4]."""
    offsets = np.array([NUMBER_0, OPERATOR_0, NUMBER_0, RESULT_0])
    return (steps + offsets).reshape(len(steps), 4 * steps.shape[1])


def _attempt_ids(numbers: np.ndarray, steps: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Token ids [n, 5c - 2] of one attempt a row; the verdict compares the last result with the target."""
    verdict = np.where(steps[:, -1, 3] == target, ID["yes"], ID["no"])
    ends = (NUMBER_0 + numbers, _step_ids(steps), RESULT_0 + target[:, None], verdict[:, None])
    return np.concatenate(ends, axis=1)


def _search(
    numbers: np.ndarray, target: np.ndarray, room: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """Attempts until the first that hits the target, at most `room` a row: the ids of every row's attempts laid end to
    end, and the steps of the one that hit [n, c - 1, 4], -1 where none did."""
    count, level = numbers.shape
    solutions = np.full((count, level - 1, 4), -1, np.int32)
    parts: list[list[np.ndarray]] = [[] for _ in range(count)]
    active, done, chunk = np.arange(count), 0, 16
    while active.size and done < room:
        chunk = min(chunk, room - done)
        repeated = np.repeat(active, chunk)
        plays = random_play(numbers[repeated], rng)
        ids = _attempt_ids(numbers[repeated], plays.steps, target[repeated]).reshape(len(active), chunk, -1)
        hits = (plays.final == target[repeated]).reshape(len(active), chunk)
        hit = hits.any(axis=1)
        kept = np.where(hit, hits.argmax(axis=1) + 1, chunk)
        steps = plays.steps.reshape(len(active), chunk, level - 1, 4)
        solutions[active[hit]] = steps[hit, kept[hit] - 1]
        for row, attempts, length in zip(active.tolist(), ids, kept.tolist(), strict=True):
            parts[row].append(attempts[:length].reshape(-1))
        active, done, chunk = active[~hit], done + chunk, min(2 * chunk, 256)
    return [np.concatenate(row) for row in parts], solutions


def _slips(
    numbers: np.ndarray, target: np.ndarray, chosen: np.ndarray, rng: np.random.Generator
) -> tuple[dict[int, list[_Text]], np.ndarray]:
    """For the chosen rows an attempt that looks right by one slip and the check that finds it, {row: [attempt, check]};
    and the targets [n], changed where that is what makes the attempt look right.

    A slip is never taught; everything around it is. Plays that end out of range are dropped.
    """
    shares = np.array_split(rng.permutation(np.flatnonzero(chosen)), len(_SLIPS))
    found: dict[int, list[_Text]] = {}
    target = target.copy()
    for rows, slip in zip(shares, _SLIPS, strict=True):
        shown, steps, restated, fitted, column = slip(numbers[rows], target[rows], rng)
        ids = _attempt_ids(shown, steps, restated)
        taught = np.ones(ids.shape, bool)
        taught[np.arange(len(rows)), column] = False
        usable = (fitted >= 1) & (fitted <= MAX_TARGET) & (ids[:, -1] == ID["yes"])
        target[rows] = np.where(usable, fitted, target[rows])
        checks = _checks(numbers[rows], steps, fitted)
        found |= {int(rows[i]): [_Text(ids[i], taught[i]), _taught(checks[i])] for i in np.flatnonzero(usable)}
    return found, target


# A slip takes numbers [n, c], targets [n] and a generator and returns the numbers as restated, the steps, the target as
# restated, the true target, and the column of the attempt that holds the slip.
_Slip = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _slip_first_result(numbers: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> _Slip:
    """The first result is off by up to ten; the rest of the play builds on it."""
    first = random_play(numbers, rng).steps[:, 0].copy()
    off = rng.integers(1, 11, len(first)) * rng.choice([-1, 1], len(first))
    wrong = np.clip(first[:, 3] + off, 0, MAX_VALUE)
    first[:, 3] = np.where(wrong == first[:, 3], np.abs(first[:, 3] - 1), wrong)
    left = _without(_without(numbers, first[:, 0]), first[:, 2])
    rest = random_play(np.concatenate((left, first[:, 3:]), axis=1), rng).steps
    steps = np.concatenate((first[:, None], rest), axis=1)
    final = steps[:, -1, 3]
    return numbers, steps, final, final, np.full(len(numbers), numbers.shape[1] + 3)


def _slip_last_result(numbers: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> _Slip:
    """The last result is said to be the target."""
    steps = random_play(numbers, rng).steps
    fitted = np.where(steps[:, -1, 3] == target, target % MAX_TARGET + 1, target)
    steps[:, -1, 3] = fitted
    return numbers, steps, fitted, fitted, np.full(len(numbers), attempt_length(numbers.shape[1]) - 3)


def _miscopied(numbers: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with one of them replaced by another in 1..20, and its column [n]."""
    shown, column, rows = numbers.copy(), rng.integers(numbers.shape[1], size=len(numbers)), np.arange(len(numbers))
    shown[rows, column] = (numbers[rows, column] - 1 + rng.integers(1, MAX_NUMBER, len(rows))) % MAX_NUMBER + 1
    return shown, column


def _slip_number(numbers: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> _Slip:
    """One number is restated wrongly, and the play uses it."""
    shown, column = _miscopied(numbers, rng)
    plays = random_play(shown, rng)
    return shown, plays.steps, plays.final, plays.final, column


def _slip_operand(numbers: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> _Slip:
    """The play uses a number that is not there."""
    plays = random_play(_miscopied(numbers, rng)[0], rng)
    _, stuck = _replay(numbers, plays.steps)
    return numbers, plays.steps, plays.final, plays.final, numbers.shape[1] + stuck


def _slip_target(numbers: np.ndarray, target: np.ndarray, rng: np.random.Generator) -> _Slip:
    """The target is restated as what the play came to."""
    plays = random_play(numbers, rng)
    fitted = np.where(plays.final == target, target % MAX_TARGET + 1, target)
    return numbers, plays.steps, plays.final, fitted, np.full(len(numbers), attempt_length(numbers.shape[1]) - 2)


_SLIPS = (_slip_first_result, _slip_last_result, _slip_number, _slip_operand, _slip_target)


def _without(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Rows of `values` [n, c] less one occurrence of `gone` [n]: [n, c - 1]."""
    keep = np.ones(values.shape, bool)
    keep[np.arange(len(values)), (values == gone[:, None]).argmax(axis=1)] = False
    return values[keep].reshape(len(values), values.shape[1] - 1)


def _checks(numbers: np.ndarray, steps: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
    """The ids of a second look at one play a row.

    The play is done again on the true numbers: each result computed anew, `bad` in the place of the first operand
    that is not there to be used, and at the end the result beside the target, `ok` or `bad`.
    """
    count, level = numbers.shape
    true_steps, stuck = _replay(numbers, steps)
    right = (stuck < 0) & (true_steps[:, -1, 3] == target)
    verdict = np.where(right, ID["ok"], ID["bad"])
    head = np.full((count, 1), ID["check"])
    body = (head, NUMBER_0 + numbers, _step_ids(true_steps), RESULT_0 + target[:, None], verdict[:, None])
    ids = np.concatenate(body, axis=1)
    last = np.where(stuck < 0, ids.shape[1] - 1, 1 + level + stuck)
    ids[np.arange(count), last] = verdict
    return [row[: end + 1] for row, end in zip(ids, last.tolist(), strict=True)]


def _replay(numbers: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps [n, c - 1, 4] with their results computed anew, and the index [n] into their ids of the first operand that
    is neither a number left nor a result left, -1 where every operand is there."""
    count, level = numbers.shape
    rows = np.arange(count)
    left = np.concatenate((numbers, np.full((count, level - 1), -1)), axis=1)
    stuck = np.full(count, -1)
    again = steps.copy()
    for step in range(level - 1):
        for operand in (0, 2):
            match = left == steps[:, step, operand][:, None]
            stuck = np.where((stuck < 0) & ~match.any(axis=1), 4 * step + operand, stuck)
            left[rows, match.argmax(axis=1)] = -1
        a, operator, b = steps[:, step, 0], steps[:, step, 1], steps[:, step, 2]
        again[:, step, 3] = np.choose(operator, (a + b, a - b, np.minimum(a * b, MAX_VALUE), a // np.maximum(b, 1)))
        left[:, level + step] = again[:, step, 3]
    return again, stuck
