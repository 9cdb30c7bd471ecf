"""Tasks, generations and verdicts as lines of JSON, and back.

A line of traces.jsonl is one completion. Budgets that the same completion answers for share the line; the
budget `none` is written as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from reasoning.budgets import json_budget
from reasoning.types import NO_LIMIT, FinishReason, Generation, SampleKey, Task, Timings
from verifiers.base import Status, Verdict

_AS_THEY_ARE = (
    "answer_start",
    "text",
    "answer_text",
    "bound",
    "forced",
    "escaped",
    "looped",
    "waits",
    "seed",
    "error",
)
_LATER = ("stopped", "probe_tokens", "answer_confidence", "thinking_confidence")
"""What runs of earlier versions do not have."""


def share_completions(generations: Iterable[Generation]) -> list[list[Generation]]:
    """Group generations that differ in nothing but the budget and the tokens booked on it, budgets ascending."""
    groups: dict[Generation, list[Generation]] = {}
    for generation in sorted(generations, key=lambda generation: generation.key):
        common = replace(generation, key=replace(generation.key, budget=0), decoded_tokens=0, cached_tokens=0)
        groups.setdefault(common, []).append(generation)
    return list(groups.values())


def generation_line(shared: Sequence[Generation]) -> dict[str, Any]:
    """One completion with every budget it answers for, as `share_completions` groups them.

    Lengths are written for the reader's convenience. Tokens that were decoded or found in the prefix cache are
    booked once, on the largest budget.
    """
    first = shared[0]
    return {
        "task_id": first.key.task_id,
        "sample": first.key.sample,
        "budgets": [json_budget(generation.key.budget) for generation in shared],
        "finish_reason": first.finish_reason.value,
        "bound": first.bound,
        "forced": first.forced,
        "escaped": first.escaped,
        "looped": first.looped,
        "waits": first.waits,
        "stopped": first.stopped,
        "thinking_tokens": first.thinking_tokens,
        "injected_tokens": first.injected_tokens,
        "answer_tokens": first.answer_tokens,
        "probe_tokens": first.probe_tokens,
        "answer_confidence": first.answer_confidence,
        "thinking_confidence": first.thinking_confidence,
        "decoded_tokens": sum(generation.decoded_tokens for generation in shared),
        "cached_tokens": sum(generation.cached_tokens for generation in shared),
        "seed": first.seed,
        "timings": asdict(first.timings),
        "error": first.error,
        "answer_text": first.answer_text,
        "text": first.text,
        "answer_start": first.answer_start,
        "thinking": first.thinking,
        "injected": first.injected,
        "prompt_ids": first.prompt_ids,
        "completion_ids": first.completion_ids,
    }


def keys_of(line: Mapping[str, Any]) -> tuple[SampleKey, ...]:
    """The samples that one line of traces.jsonl answers for."""
    return tuple(SampleKey(line["task_id"], line["sample"], _budget_in(budget)) for budget in line["budgets"])


def generations_of(line: Mapping[str, Any]) -> Iterator[Generation]:
    """The generations of one line of traces.jsonl, one a budget."""
    keys = keys_of(line)
    common: dict[str, Any] = {
        "prompt_ids": tuple(line["prompt_ids"]),
        "completion_ids": tuple(line["completion_ids"]),
        "thinking": tuple((start, end) for start, end in line["thinking"]),
        "injected": tuple((start, end) for start, end in line["injected"]),
        "finish_reason": FinishReason(line["finish_reason"]),
        "timings": Timings(**line["timings"]),
        **{name: line[name] for name in _AS_THEY_ARE},
        **{name: line[name] for name in _LATER if name in line},
    }
    for key in keys:
        booked = {name: line[name] if key == keys[-1] else 0 for name in ("decoded_tokens", "cached_tokens")}
        yield Generation(key=key, **common, **booked)


def verdict_line(key: SampleKey, verdict: Verdict) -> dict[str, Any]:
    record = asdict(verdict)
    record["status"] = verdict.status.value
    return {"task_id": key.task_id, "sample": key.sample, "budget": json_budget(key.budget), **record}


def key_of(line: Mapping[str, Any]) -> SampleKey:
    """The sample that one line of verdicts.jsonl is of."""
    return SampleKey(line["task_id"], line["sample"], _budget_in(line["budget"]))


def verdict_of(line: Mapping[str, Any]) -> tuple[SampleKey, Verdict]:
    fields = {name: value for name, value in line.items() if name not in ("task_id", "sample", "budget", "status")}
    if fields.get("span") is not None:
        fields["span"] = tuple(fields["span"])
    return key_of(line), Verdict(status=Status(line["status"]), **fields)


def task_line(task: Task) -> dict[str, Any]:
    return asdict(task)


def task_of(line: Mapping[str, Any]) -> Task:
    task = Task(**line)
    return replace(task, prompt=tuple(task.prompt))


def _budget_in(budget: int | None) -> int:
    return NO_LIMIT if budget is None else budget
