"""What the steps of an engine say: a line through their times, speed against position, bandwidth, percentiles.

Pure functions over `reasoning.engine.steps.Steps`. A step decodes when it computes one token for every request in it;
steps that hold a piece of a prompt, recomputed ones included, are in no speed and in no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reasoning.engine.steps import COLUMNS, Steps

PERCENTILES = (50, 90, 99)
_BINS_A_DOUBLING = 8  # of context, among which the steps of one batch are divided
_HUBER = 1.345  # residuals beyond so many standard deviations count less (Huber 1964: 95 % efficient for normal ones)
_ITERATIONS = 30

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Steps of the same batch and nearly the same context: their median time. `context` is summed over requests."""

    batch: float
    context: float  # tokens, mean
    seconds: float  # median
    steps: int


@dataclass(frozen=True, slots=True)
class StepLine:
    """seconds of a step = fixed_s + request_s x batch + token_s x summed context.

    `fixed_s` holds the weights, which every step reads whole; `token_s` is the bytes of one token's cache over the
    bandwidth. Where all steps have one batch, its share is in `fixed_s`. `error` is the median of |fitted - measured| /
    measured.
    """

    fixed_s: float
    request_s: float
    token_s: float
    error: float
    steps: int

    def seconds(self, batch: float, context: float) -> float:
        return self.fixed_s + self.request_s * batch + self.token_s * context


@dataclass(frozen=True, slots=True)
class Speed:
    """Decoding at about one batch and one position. `tokens_per_s` is of all requests together, in the median step."""

    batch_low: int
    batch_high: int
    batch: float  # mean
    position: float  # tokens before, of a request, mean
    tokens_per_s: float
    step_bytes: float | None  # read from memory in one step; None: the model's bytes are not known
    steps: int
    seconds: float  # of all these steps


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one step reads from memory: all weights, and the cache of every request."""

    weight_bytes: float
    cache_bytes: Callable[[float], float]
    """Of one request with so many tokens."""

    def of_step(self, batch: float, position: float) -> float:
        return self.weight_bytes + batch * self.cache_bytes(position)


def join(parts: Sequence[Steps]) -> Steps:
    """All steps, in order."""
    whole = Steps()
    for part in parts:
        for column in COLUMNS:
            getattr(whole, column).extend(getattr(part, column))
    return whole


def group_steps(steps: Steps) -> list[StepTime]:
    """The decoding steps by batch and context, each group with its median: an odd step moves nothing."""
    seconds, batch, context = _decoding(steps)
    bins = np.floor(_BINS_A_DOUBLING * np.log2(np.maximum(context / np.maximum(batch, 1), 1.0)))
    return [
        StepTime(float(batch[rows[0]]), float(context[rows].mean()), float(np.median(seconds[rows])), len(rows))
        for rows in _alike(batch, bins)
    ]


def fit_steps(times: Sequence[StepTime]) -> StepLine | None:
    """The line through groups of steps; None when they are too few or all of one context.

    Least squares of relative errors with no negative part, reweighted after Huber, so that a few slow steps (another
    process, a collection of garbage) do not tilt it.
    """
    contexts = {round(time.context) for time in times}
    if len(times) < 3 or len(contexts) < 2:
        return None
    batch, context, seconds = (np.array([getattr(t, name) for t in times]) for name in ("batch", "context", "seconds"))
    columns = np.column_stack([np.ones(len(times)), batch, context])
    free = np.array([True, len(set(batch.tolist())) > 1, True])
    weights = np.sqrt(np.array([min(time.steps, 100) for time in times]))
    found = _robust(columns[:, free], seconds, weights)
    parts = np.zeros(3)
    parts[free] = found
    error = float(np.median(np.abs(columns @ parts - seconds) / seconds))
    return StepLine(*map(float, parts), error, sum(time.steps for time in times))


def _robust(columns: Array, target: Array, weights: Array) -> Array:
    from scipy.optimize import nnls  # not at the top: commands that fit nothing would wait for it

    relative, ones = columns / target[:, None], np.ones(len(target))
    trust = np.ones(len(target))
    found = np.zeros(columns.shape[1])
    size = np.abs(relative).max(axis=0)  # columns differ by orders of magnitude: seconds, requests, tokens
    for _ in range(_ITERATIONS):
        root = weights * np.sqrt(trust)
        before = found
        found = nnls(relative / size * root[:, None], ones * root)[0] / size
        residuals = relative @ found - ones
        deviation = 1.4826 * float(np.median(np.abs(residuals)))
        if deviation == 0 or np.allclose(before, found, rtol=1e-6):
            break
        trust = np.minimum(1.0, _HUBER * deviation / np.maximum(np.abs(residuals), 1e-300))
    return found


def speeds(steps: Steps, traffic: Traffic | None) -> list[Speed]:
    """Decoding speed by batch (within a factor of the root of two) and position."""
    seconds, batch, context = _decoding(steps)
    position = context / np.maximum(batch, 1)
    kinds = np.round(2 * np.log2(np.maximum(batch, 1)))
    bins = np.floor(_BINS_A_DOUBLING / 2 * np.log2(np.maximum(position, 1.0)))
    found = []
    for rows in _alike(kinds, bins):
        where, size = float(position[rows].mean()), float(batch[rows].mean())
        found.append(
            Speed(
                batch_low=int(batch[rows].min()),
                batch_high=int(batch[rows].max()),
                batch=size,
                position=where,
                tokens_per_s=float(np.median(batch[rows] / seconds[rows])),
                step_bytes=None if traffic is None else traffic.of_step(size, where),
                steps=len(rows),
                seconds=float(seconds[rows].sum()),
            )
        )
    return found


def bytes_per_second(found: Sequence[Speed]) -> float | None:
    """What all decoding steps together read, over their time; None when there are none or their bytes are unknown."""
    moved = [speed.steps * speed.step_bytes for speed in found if speed.step_bytes is not None]
    return sum(moved) / sum(speed.seconds for speed in found) if moved else None


def between_tokens(steps: Steps) -> dict[str, float]:
    """Percentiles of the seconds from one output token of a request to its next, over all tokens.

    Every request that decodes in a step waits for the whole of it, prompts that are computed beside it included.
    """
    seconds = np.array(steps.microseconds) / 1e6
    decoding = np.array(steps.batch, float) - np.array(steps.prompts, float)
    return percentiles(seconds[decoding > 0], decoding[decoding > 0])


def percentiles(values: Sequence[float] | Array, weights: Array | None = None) -> dict[str, float]:
    """p50, p90 and p99: the smallest value that so much of the weight does not exceed. Empty without values."""
    found = np.asarray(values, float)
    if not len(found):
        return {}
    order = np.argsort(found, kind="stable")
    upto = np.cumsum(np.ones(len(found)) if weights is None else weights[order])
    places = np.searchsorted(upto, [share / 100 * upto[-1] * (1 - 1e-12) for share in PERCENTILES])
    return {f"p{share}": float(found[order[place]]) for share, place in zip(PERCENTILES, places, strict=True)}


def _decoding(steps: Steps) -> tuple[Array, Array, Array]:
    """Seconds, batch and summed context of the steps that only decode."""
    columns = np.array([steps.microseconds, steps.batch, steps.context, steps.prefill], float).reshape(4, -1)
    microseconds, batch, context, _ = columns[:, (columns[3] == 0) & (columns[0] > 0)]
    return microseconds / 1e6, batch, context


def _alike(first: Array, second: Array) -> list[NDArray[np.intp]]:
    """Indices of the rows that agree in both, a group each, in order of the values."""
    if not len(first):
        return []
    order = np.lexsort((second, first))
    changes = np.flatnonzero((np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)) + 1
    return np.split(order, changes)
