"""What goes wrong in the bundled model's traces, by position: `python -m benchmarks.trace_audit RUN`.

Every attempt of every stored trace is read again: was the problem copied right, was every operand there to be used,
was every result right, was the verdict right, and did the second look catch what had slipped? Counts are printed with
their denominators for stretches of the context.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reasoning.run_folder import RunFolder

STRETCHES = (0, 1_000, 4_000, 16_000, 32_000, 65_536)
COLUMNS = (
    *("attempts", "malformed", "miscopied", "unavailable", "operations", "wrong_results"),
    *("hits", "false_yes", "missed_yes", "checks", "false_ok", "missed_ok"),
)
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else -1,
}


def audit(words: Sequence[str], numbers: Sequence[int], target: int) -> dict[int, Counter[str]]:
    """Counts of one trace (the words of its thinking) by stretch of the context.

    `COLUMNS` are the keys: unavailable counts operands that were not there to be used, hits are attempts that solve the
    problem, false_yes are attempts called right that do not, missed_yes hits called wrong; likewise for the checks.
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


def total(parts: Iterable[dict[int, Counter[str]]]) -> dict[int, Counter[str]]:
    """Sums over traces."""
    summed = {start: Counter[str]() for start in STRETCHES[:-1]}
    for part in parts:
        for start, counts in part.items():
            summed[start] += counts
    return summed


def table(counts: dict[int, Counter[str]]) -> Table:
    """One line a stretch of the context."""
    drawn = Table("context from", *COLUMNS, box=None)
    for start, row in counts.items():
        drawn.add_row(f"{start:,}", *(f"{row[column]:,}" for column in COLUMNS))
    return drawn


def main(run: str) -> int:
    """Audit the longest thinking of every sample in a run of the bundled model on countdown."""
    folder = RunFolder(Path(run))
    tasks, longest = folder.read_tasks(), {}
    for generation in folder.read_generations():
        name = generation.key.task_id, generation.key.sample
        if name not in longest or generation.thinking_tokens > longest[name].thinking_tokens:
            longest[name] = generation
    parts = []
    for (task_id, _), generation in sorted(longest.items()):
        meta = tasks[task_id].meta
        parts.append(audit(generation.text.split("</think>")[0].split(), meta["numbers"], meta["target"]))
    Console(width=140).print(table(total(parts)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
