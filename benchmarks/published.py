"""Published figures again, from their counts and with this project's estimators.

    python -m benchmarks.published

Counts are those that the published percentages stand for, given the size of the set: they have to give the same
percentage back, rounded as it was printed. Beside each stands the interval that its source did not print, over the
questions. Sources: s1 (arXiv 2501.19393v3, tables 1, 3 and 4), DEER's repository table, rasbt/reasoning-from-scratch
(chapters 4 to 6, MATH-500),
ollama issue 17561, lighteval issue 771.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import numpy as np

from eval.comparison import paired_test
from eval.statistics import mean_intervals
from eval.voting import pass_at_k

AIME, MATH, GPQA, LCB = 30, 500, 198, 77


@dataclass(frozen=True, slots=True)
class Published:
    """A percentage as it was printed, and the count that it stands for."""

    name: str
    right: int
    questions: int
    percent: float


PUBLISHED = (
    Published("Qwen2.5-32B-Instruct, AIME24", 8, AIME, 26.7),
    Published("Qwen2.5-32B-Instruct, MATH-500", 420, MATH, 84.0),
    Published("Qwen2.5-32B-Instruct, GPQA-D", 97, GPQA, 49.0),
    Published("s1-32B without budget forcing, AIME24", 15, AIME, 50.0),
    Published("s1-32B without budget forcing, MATH-500", 463, MATH, 92.6),
    Published("s1-32B without budget forcing, GPQA-D", 112, GPQA, 56.6),
    Published("s1-32B with budget forcing, AIME24", 17, AIME, 56.7),
    Published("s1-32B with budget forcing, MATH-500", 465, MATH, 93.0),
    Published("s1-32B with budget forcing, GPQA-D", 118, GPQA, 59.6),
    Published("s1-32B, 2 x Wait, AIME24", 16, AIME, 53.3),
    Published("s1-32B, 2 x no string, MATH-500", 451, MATH, 90.2),
    Published("s1-32B, 2 x no string, GPQA-D", 109, GPQA, 55.1),
    Published("s1-32B, no extrapolation, GPQA-D", 114, GPQA, 57.6),
    Published("s1 token-conditional, AIME24", 12, AIME, 40.0),
    Published("s1 step-conditional, AIME24", 11, AIME, 36.7),
    Published("DEER vanilla R1-Distill-Qwen-7B, GPQA-D", 47, GPQA, 23.7),
    Published("DEER vanilla R1-Distill-Qwen-1.5B, GPQA-D", 14, GPQA, 7.1),
    Published("Qwen3-0.6B reasoning, greedy, MATH-500", 241, MATH, 48.2),
    Published("Qwen3-0.6B base, greedy, MATH-500", 76, MATH, 15.2),
    Published("Qwen3-0.6B base, self-consistency n=10, MATH-500", 158, MATH, 31.6),
    Published("Qwen3-0.6B reasoning, self-consistency n=3, MATH-500", 276, MATH, 55.2),
    Published("LiveCodeBench v6 hard, unbounded", 65, LCB, 84.4),
    Published("LiveCodeBench v6 hard, 16,384 tokens", 56, LCB, 72.7),
)

HALVED = (0.4375, 0.2188, 0.1094, 0.0547)
"""pass@1 over 8, 16, 32 and 64 samples where 8 exist and missing ones count as wrong (lighteval issue 771)."""


def measured(one: Published) -> dict[str, float]:
    """The percentage and its interval from the count."""
    rates = np.repeat([[1.0], [0.0]], [one.right, one.questions - one.right], axis=0)
    (estimate,) = mean_intervals(rates)
    return {"percent": 100 * estimate.value, "low": 100 * estimate.low, "high": 100 * estimate.high}


def halved(samples: int) -> float:
    """pass@1 of `samples` samples of which 8 exist, half the tasks with 3 right and half with 4."""
    return float(np.mean([pass_at_k(right, samples, 1) for right in (3, 4)]))


def s1_difference() -> float:
    """The least p-value that 15 and 17 right of the same 30 questions can have: none lost, two gained."""
    return paired_test(np.array([1.0, 1.0] + [0.0] * (AIME - 2)))


def main() -> int:
    wrong = 0
    for one in PUBLISHED:
        found = measured(one)
        same = round(found["percent"], 1) == one.percent
        wrong += not same
        interval = f"[{found['low']:.1f}, {found['high']:.1f}]"
        print(f"{one.name:<55} {one.percent:6.1f} {found['percent']:8.2f} {interval:>14} {'' if same else 'DIFFERS'}")
    for samples, published in zip((8, 16, 32, 64), HALVED, strict=True):
        found = halved(samples)
        wrong += round(found, 4) != published
        print(
            f"pass@1 where {samples - 8} of {samples} samples are missing and count as wrong: {published} {found:.4f}"
        )
    print(f"pass@1 over the samples that exist, whatever was planned: {halved(8):.4f}")
    print(f"s1's 50.0 and 56.7 on AIME24: p is {s1_difference():.2f} at the least")
    print(json.dumps({"checked": len(PUBLISHED) + len(HALVED), "different": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
