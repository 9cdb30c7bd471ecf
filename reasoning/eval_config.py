"""The settings of an evaluation, with their limits and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from reasoning.budgets import parse_budget
from reasoning.config import Section, load_settings
from reasoning.types import NO_LIMIT
from verifiers.policy import DEFAULT, PRESETS


def _split(value: Any) -> Any:
    """`1k,10k` from the command line, `[1k, 10k]` or a single value from YAML."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list | tuple) else [value]


def _sorted_unique(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


def _known_policy(name: str) -> str:
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"write {', '.join(PRESETS)}"
        raise ValueError(f"no policy is called '{name}'; {hint}")
    return name


Budget = Annotated[
    int,
    BeforeValidator(lambda value: parse_budget(str(value))),
    PlainSerializer(lambda value: "none" if value == NO_LIMIT else value),
]
Budgets = Annotated[tuple[Budget, ...], BeforeValidator(_split), AfterValidator(_sorted_unique)]
Levels = Annotated[
    tuple[Annotated[int, Field(ge=3, le=6)], ...], BeforeValidator(_split), AfterValidator(_sorted_unique)
]
Count = Annotated[int, Field(ge=1)]


class Sampling(Section):
    """None: what the model's generation_config.json says, else 1.0, or off for `top_k` and `min_p` (0 is off)."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)


class Extension(Section):
    """Thinking that closes by itself is continued with `text`, up to `waits` times."""

    waits: int = Field(default=0, ge=0)
    text: str = Field(default="Wait", min_length=1)


class Countdown(Section):
    """Settings of the built-in countdown tasks. `auto`: compact for a model that asks for it, else plain."""

    levels: Levels = (3, 4, 5, 6)
    prompt: Literal["auto", "plain", "compact"] = "auto"


class Data(Section):
    """Where the tasks come from, and how they are graded when the records do not say it.

    `calibrate` leaves code tasks out whose reference solution fails here.
    """

    path: str | None = None
    split: str = "test"
    verifier: str | None = None
    revision: str | None = None
    calibrate: bool = False


class Grading(Section):
    """`policy`: what counts as the same mathematical answer, by its name in `verifiers.policy.PRESETS`."""

    policy: Annotated[str, AfterValidator(_known_policy)] = DEFAULT


class EngineSection(Section):
    """The fields of `reasoning.engine.base.EngineSettings`, with their limits."""

    dtype: str | None = None
    max_num_seqs: Count = 256
    kv_cache_gb: float | None = Field(default=None, gt=0)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    block_size: Count | None = None
    enforce_eager: bool | None = None
    stream_interval: Count = 16
    replicas: Count = 1
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _cache_is_known(self) -> Self:
        if self.replicas > 1 and self.kv_cache_gb is None:
            raise ValueError(
                f"replicas is {self.replicas}, and engines on one device need kv_cache_gb, which they share evenly"
            )
        return self


class EvalConfig(Section):
    """Everything that decides the numbers of one evaluation."""

    budgets: Budgets
    model: str = Field(default="pocket", min_length=1)
    tasks: str = Field(default="countdown", min_length=1)
    samples: Count = 1
    limit: Count | None = None
    seed: int = Field(default=0, ge=0)
    baseline: bool = True
    closing: str = Field(default="bare", min_length=1)
    max_answer_tokens: Count | None = None
    max_errors: float = Field(default=0.05, ge=0, le=1)
    policy: str | None = None
    logprobs: bool = False
    profile: bool = False
    out: str | None = None
    sampling: Sampling = Sampling()
    extension: Extension = Extension()
    countdown: Countdown = Countdown()
    data: Data = Data()
    grading: Grading = Grading()
    engine: EngineSection = EngineSection()

    @model_validator(mode="after")
    def _one_engine_is_profiled(self) -> Self:
        if self.profile and self.engine.replicas > 1:
            raise ValueError(f"profile measures one engine, engine.replicas is {self.engine.replicas}; leave one out")
        return self


def load_config(yaml_path: str | Path | None, overrides: Mapping[str, str]) -> EvalConfig:
    """Settings of an evaluation; see `reasoning.config.load_settings`."""
    return load_settings(EvalConfig, yaml_path, overrides)
