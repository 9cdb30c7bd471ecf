"""Samples in operations, bytes, seconds, joules or money: what a run cost, and its curves over that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from eval.axes import Axis
from eval.curves import MISSING, GradedSample
from eval.policies import Policy
from eval.results import Results, build
from eval.voted import Voting
from reasoning.compute import (
    Scores,
    Storage,
    attention_flops,
    cache_bytes,
    head_flops,
    prefill_cache_bytes,
    scores_of,
    step_weight_bytes,
    token_flops,
)
from reasoning.model_shape import KvLayers, ModelShape, kv_layers

IN_TOKENS = ("split", "difficulty")
"""Policies that choose within a number of tokens: they are left out where an axis is none."""

_SCALED = ("tokens_mean", "tokens_median", "tokens_p95", "thinking_mean", "answer_mean")


@dataclass(frozen=True)  # no slots: what all samples need is computed once
class RunWork:
    """What tokens of a run cost, and what all of it cost over all attempts. `seconds` are of all devices together."""

    shape: ModelShape
    storage: Storage
    steps: int
    generated_tokens: int
    prompt_tokens: int  # computed: those found in the prefix cache left out
    seconds: float
    joules: float | None  # None: nobody measured

    @cached_property
    def step_tokens(self) -> float:
        """Mean of a step: how many share its reading of the weights."""
        return max(1.0, self.generated_tokens / self.steps) if self.steps else 1.0

    @cached_property
    def _weights_per_token(self) -> float:
        return step_weight_bytes(self.shape, self.step_tokens, self.storage) / self.step_tokens

    @cached_property
    def _scores(self) -> tuple[Scores, ...]:
        return scores_of(self.shape)

    @cached_property
    def _groups(self) -> tuple[KvLayers, ...]:
        return kv_layers(self.shape, self.storage.kv)

    @cached_property
    def _token_flops(self) -> tuple[int, int]:
        return token_flops(self.shape), head_flops(self.shape)

    def flops(self, start: int, end: int) -> float:
        """Of tokens that are decoded at positions start to end - 1."""
        return max(0, end - start) * sum(self._token_flops) + attention_flops(self._scores, start, end, decode=True)

    def prompt_flops(self, tokens: int) -> float:
        layers, head = self._token_flops
        return tokens * layers + attention_flops(self._scores, 0, tokens, decode=False) + (head if tokens else 0)

    def bytes(self, start: int, end: int) -> float:
        """Likewise bytes of memory, with a share of the weights that steps of `step_tokens` read."""
        return max(0, end - start) * self._weights_per_token + cache_bytes(self._groups, start, max(start, end))

    def prompt_bytes(self, tokens: int) -> float:
        """Of the cache: weights are read by the steps that prompts are computed in, whether they are or not."""
        return prefill_cache_bytes(self._groups, 0, tokens)

    def run_flops(self, samples: Sequence[GradedSample]) -> float:
        """Of everything that the engine computed, each decoded token once."""
        length = _mean_prompt(samples)
        prompts = self.prompt_tokens * self.prompt_flops(length) / length
        return prompts + sum(self.flops(*_own_span(sample)) for sample in samples if sample.decoded_tokens)

    def run_bytes(self, samples: Sequence[GradedSample]) -> float:
        length = _mean_prompt(samples)
        prompts = self.prompt_tokens * self.prompt_bytes(length) / length
        weights = self.steps * step_weight_bytes(self.shape, self.step_tokens, self.storage)
        cached = (cache_bytes(self._groups, *_own_span(sample)) for sample in samples if sample.decoded_tokens)
        return prompts + weights + sum(cached)

    def as_json(self, samples: Sequence[GradedSample]) -> dict[str, float | None]:
        """For results.json."""
        return {
            "flops": self.run_flops(samples),
            "hbm_bytes": self.run_bytes(samples),
            "device_seconds": self.seconds,
            "joules": self.joules,
            "step_tokens": self.step_tokens,
        }


def _own_span(sample: GradedSample) -> tuple[int, int]:
    """Positions at which the engine decoded for this row alone. The last token is sampled and never computed."""
    end = sample.prompt_tokens + sample.completion_tokens
    own = min(sample.decoded_tokens, sample.completion_tokens)
    thrown_away = sample.decoded_tokens - own
    return end - own, max(end - own, end - 1 + thrown_away)


def _mean_prompt(samples: Sequence[GradedSample]) -> int:
    lengths = [sample.prompt_tokens for sample in samples]
    return max(1, round(sum(lengths) / len(lengths))) if lengths else 1


def in_flops(sample: GradedSample, work: RunWork) -> tuple[float, float, float]:
    """Operations of thinking with its prompt, answer and probes, as if the sample were alone."""
    prompt, cut, end = _places(sample)
    return (
        work.prompt_flops(prompt) + work.flops(prompt, cut),
        work.flops(cut, end),
        sample.probe_tokens * work.flops(end, end + 1),
    )


def in_bytes(sample: GradedSample, work: RunWork) -> tuple[float, float, float]:
    """Likewise bytes of memory; a prompt shares the reading of the weights with the step that it is computed in."""
    prompt, cut, end = _places(sample)
    return (
        work.prompt_bytes(prompt) + work.bytes(prompt, cut),
        work.bytes(cut, end),
        sample.probe_tokens * work.bytes(end, end + 1),
    )


def _places(sample: GradedSample) -> tuple[int, int, int]:
    """Where the completion begins, where its answer does, and where its last token was sampled."""
    prompt = sample.prompt_tokens
    end = max(prompt, prompt + sample.completion_tokens - 1)
    return prompt, max(prompt, min(end, prompt + sample.completion_tokens - sample.answer_tokens)), end


def recost(
    samples: Sequence[GradedSample], axis: Axis, work: RunWork, price_per_hour: float | None
) -> list[GradedSample]:
    """The samples with thinking, answer and probes in whole numbers of `axis.unit` in place of tokens."""
    if axis.name == "flops":
        return [_replaced(sample, in_flops(sample, work), 1.0) for sample in samples]
    factor = 1.0
    if axis.name != "bytes":
        whole = {"joules": work.joules or 0.0}.get(axis.name, work.seconds)
        factor = whole / work.run_bytes(samples) / axis.unit
    if axis.name == "dollars":
        factor *= (price_per_hour or 0.0) / 3600
    return [_replaced(sample, in_bytes(sample, work), factor) for sample in samples]


def _replaced(sample: GradedSample, parts: tuple[float, float, float], factor: float) -> GradedSample:
    if sample.status == MISSING:
        return sample
    thinking, answer, probes = (round(factor * part) for part in parts)
    return replace(sample, thinking_tokens=thinking, answer_tokens=answer, probe_tokens=probes)


@dataclass(frozen=True, slots=True)
class OnAxis:
    """The results of a run with costs in place of tokens: its fields that speak of tokens are in the unit of `axis`."""

    axis: Axis
    results: Results
    samples: Sequence[GradedSample]


def on_axis(
    results: Results,
    samples: Sequence[GradedSample],
    axis: Axis,
    work: RunWork,
    price_per_hour: float | None,
    policies: Sequence[Policy],
    voting: Voting | None,
) -> OnAxis:
    """The results over another axis. Policies that choose within a number of tokens are left out."""
    costed = recost(samples, axis, work, price_per_hour)
    kept = [policy for policy in policies if policy.name not in IN_TOKENS]
    again = build(costed, results.run, results.planned, (), 0, {}, kept, voting=voting)
    points = tuple(scaled(point, axis) for point in again.points)
    cells = tuple(scaled(cell, axis) for cell in again.parallel)
    replayed = tuple(scaled(policy, axis) for policy in again.policies)
    return OnAxis(axis, replace(results, points=points, parallel=cells, policies=replayed), costed)


def scaled(row: Any, axis: Axis) -> Any:
    """A row with its fields that speak of tokens, which hold whole numbers of `axis.unit`, in the axis's own unit."""
    spoken: Mapping[str, float] = {
        field.name: getattr(row, field.name) * axis.unit
        for field in fields(row)
        if field.name in _SCALED or field.name.endswith("tokens_mean")
    }
    return replace(row, **spoken)
