"""How fast a profiled run decoded, and how long its readers would have waited: the section `throughput` of a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eval.curves import MISSING, GradedSample
from reasoning.budgets import format_budget
from reasoning.engine.steps import Steps
from reasoning.throughput import (
    Speed,
    StepLine,
    StepTime,
    Traffic,
    between_tokens,
    bytes_per_second,
    fit_steps,
    group_steps,
    percentiles,
    speeds,
)

HEADINGS = ("what", "p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates are of steps that only decode. Percentiles are `p50`, `p90` and `p99`, in seconds; empty: nothing to tell.

    `answer_s` is by the label of the budget. `utilisation` is what the steps read from memory, weights and cache, over
    their time and over the copy rate of the device.
    """

    device: str
    steps: int
    decoding_steps: int
    copy_rate: float | None  # bytes a second
    utilisation: float | None
    prefix_hit_rate: float | None  # of prompt tokens, found in the cache
    line: StepLine | None
    first_token_s: Mapping[str, float]
    answer_s: Mapping[str, Mapping[str, float]]
    between_tokens_s: Mapping[str, float]
    speeds: tuple[Speed, ...]
    step_times: tuple[StepTime, ...]

    def as_json(self) -> dict[str, Any]:
        """Without `step_times`: they are thousands in a long run, and plots/steps.json has them."""
        return {name: value for name, value in asdict(self).items() if name != "step_times"}


def throughput_of(
    steps: Steps,
    samples: Sequence[GradedSample],
    *,
    device: str,
    copy_rate: float | None,
    traffic: Traffic | None,
    prefix_hit_rate: float | None,
) -> Throughput:
    """What the steps of a run and the waits of its samples come to."""
    times = group_steps(steps)
    found = speeds(steps, traffic)
    rate = bytes_per_second(found)
    return Throughput(
        device=device,
        steps=len(steps),
        decoding_steps=sum(time.steps for time in times),
        copy_rate=copy_rate,
        utilisation=None if rate is None or copy_rate is None else rate / copy_rate,
        prefix_hit_rate=prefix_hit_rate,
        line=fit_steps(times),
        first_token_s=percentiles(_first_tokens(samples)),
        answer_s={format_budget(budget): percentiles(waits) for budget, waits in _answers(samples).items()},
        between_tokens_s=between_tokens(steps),
        speeds=tuple(found),
        step_times=tuple(times),
    )


def _first_tokens(samples: Sequence[GradedSample]) -> list[float]:
    """One a sample of a task: its budgets share the trace."""
    found = {(s.key.task_id, s.key.sample): s.first_s for s in samples if s.first_s is not None}
    return list(found.values())


def _answers(samples: Sequence[GradedSample]) -> dict[int, list[float]]:
    waits: dict[int, list[float]] = {}
    for sample in samples:
        if sample.answer_s is not None and sample.status != MISSING:
            waits.setdefault(sample.key.budget, []).append(sample.answer_s)
    return dict(sorted(waits.items()))


def waits_of(found: Throughput) -> dict[str, Mapping[str, float]]:
    """Every latency that is known, by what is waited for."""
    rows = {"first token": found.first_token_s}
    rows |= {f"first answer token at {budget}": waits for budget, waits in found.answer_s.items()}
    rows["from one token to the next"] = found.between_tokens_s
    return {name: waits for name, waits in rows.items() if waits}


def latency_rows(found: Throughput) -> list[tuple[str, ...]]:
    """The latencies under HEADINGS."""
    return [(name, *(duration(waits[column]) for column in HEADINGS[1:])) for name, waits in waits_of(found).items()]


def speed_rows(found: Throughput) -> Iterator[tuple[str, str]]:
    """What else the profile found, a name and a value."""
    yield "steps, of which only decoded", f"{found.steps:,}, {found.decoding_steps:,}"
    if found.line is not None:
        yield "a step takes", line_in_words(found.line)
        yield "median error of that line", f"{100 * found.line.error:.1f} %"
    if found.copy_rate is not None:
        yield "the device copies its memory at", f"{found.copy_rate / 1e9:,.0f} GB/s"
    if found.utilisation is not None:
        yield "of that, decoding read weights and cache at", f"{100 * found.utilisation:.0f} %"
    if found.prefix_hit_rate is not None:
        yield "prompt tokens found in the prefix cache", f"{100 * found.prefix_hit_rate:.0f} %"


def line_in_words(line: StepLine) -> str:
    request = f" + {duration(line.request_s)} a request" if line.request_s else ""
    return f"{duration(line.fixed_s)}{request} + {duration(1000 * line.token_s)} a thousand tokens of context"


def duration(seconds: float) -> str:
    """Three figures with the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
