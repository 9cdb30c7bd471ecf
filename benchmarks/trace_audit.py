"""What goes wrong in the bundled model's traces, by position: `python -m benchmarks.trace_audit RUN [--json OUT]`.

Every attempt of every stored trace is read again: was the problem copied right, was every operand there to be used, was
every result right, was the verdict right, and did the second look catch what had slipped? Rates are printed per attempt or
per operation, with their denominators, for stretches of the context.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

STRETCHES = (0, 1_000, 4_000, 16_000, 32_000, 65_536)
OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b if b else -1}


def audit(words: Sequence[str], numbers: Sequence[int], target: int) -> dict[int, Counter[str]]:
    """Counts of one trace (the words of its thinking) by stretch of the context.

    Keys: attempts, malformed, miscopied, unavailable (operands), operations, wrong_results, hits, false_yes (the attempt
    is not a solution), missed_yes, checks, false_ok, missed_ok.
    """
    counts = {start: Counter[str]() for start in STRETCHES[:-1]}
    width = 5 * len(numbers) - 2
    at, checking = 0, False
    while at < len(words):
        stretch = counts[max(start for start in counts if start <= at)]
        checking = words[at] == "check"
        at += checking
        end = next((i for i in range(at, min(at + width, len(words))) if words[i] in _VERDICTS), None)
        if end is None:
            if at + width <= len(words):
                stretch["malformed"] += 1
            break
        (_audit_check if checking else _audit_attempt)(words[at : end + 1], numbers, target, stretch)
        at = end + 1
    return counts


_VERDICTS = {"no", "yes", "ok", "bad"}


def _audit_attempt(words: Sequence[str], numbers: Sequence[int], target: int, counts: Counter[str]) -> None:
    counts["attempts"] += 1
    level = len(numbers)
    if len(words) != 5 * level - 2 or words[-1] not in ("yes", "no"):
        counts["malformed"] += 1
        return
    counts["miscopied"] += list(words[:level]) != [str(n) for n in numbers] or words[-2] != f"={target}"
    solved = _replay(words[level:-2], numbers, counts) == target
    counts["hits"] += solved
    counts["false_yes"] += words[-1] == "yes" and not solved
    counts["missed_yes"] += words[-1] == "no" and solved


def _audit_check(words: Sequence[str], numbers: Sequence[int], target: int, counts: Counter[str]) -> None:
    counts["checks"] += 1
    level = len(numbers)
    whole = len(words) == 5 * level - 2
    solved = whole and _replay(words[level:-2], numbers, counts) == target
    counts["false_ok"] += words[-1] == "ok" and not solved
    counts["missed_ok"] += words[-1] == "bad" and solved


def _replay(words: Sequence[str], numbers: Sequence[int], counts: Counter[str]) -> int | None:
    """The last result if every step is right and uses what is there, else None."""
    left = Counter(numbers)
    sound, last = True, None
    for a, operator, b, result in zip(*[iter(words)] * 4, strict=True):
        if not (a.isdigit() and b.isdigit() and operator in OPERATIONS and result[1:].isdigit()):
            counts["malformed"] += 1
            return None
        for operand in (int(a), int(b)):
            if left[operand] <= 0:
                counts["unavailable"] += 1
                sound = False
            left[operand] -= 1
        counts["operations"] += 1
        last = int(result[1:])
        if OPERATIONS[operator](int(a), int(b)) != last:
            counts["wrong_results"] += 1
            sound = False
        left[last] += 1
    return last if sound else None


def table(counts: dict[int, Counter[str]]) -> str:
    """One line a stretch of the context, rates in their natural denominators."""
    lines = ["context from   attempts  miscopied  unavailable  wrong results  malformed  true yes  false yes  missed yes  false ok  missed ok"]
    for start, c in counts.items():
        attempts, operations = max(1, c["attempts"]), max(1, c["operations"])
        lines.append(
            f"{start:>12,} {c['attempts']:>10,} {c['miscopied'] / attempts:>10.2e} {c['unavailable'] / operations:>12.2e} "
            f"{c['wrong_results'] / operations:>14.2e} {c['malformed'] / attempts:>10.2e} {c['hits'] - c['missed_yes']:>9,} "
            f"{c['false_yes']:>10,} {c['missed_yes']:>11,} {c['false_ok']:>9,} {c['missed_ok']:>10,}"
        )
    return "\n".join(lines)


def total(parts: Iterable[dict[int, Counter[str]]]) -> dict[int, Counter[str]]:
    summed = {start: Counter[str]() for start in STRETCHES[:-1]}
    for part in parts:
        for start, counts in part.items():
            summed[start] += counts
    return summed
