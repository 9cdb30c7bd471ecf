"""The settings of an evaluation: one schema, filled from a YAML file and from dotted overrides.

Both sources become one nested mapping that is validated once, so a setting behaves the same wherever it
was written, and every problem is reported at once with the place to correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from reasoning.budgets import parse_budget
from reasoning.types import NO_LIMIT
from verifiers.policy import DEFAULT, PRESETS


class ConfigError(ValueError):
    """Settings that cannot be used; the message is ready to show."""


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


class Section(BaseModel):
    """Frozen, and closed to keys that nobody reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def setting_paths(schema: type[Section]) -> Iterator[str]:
    """Every setting as a dotted path, sections opened."""
    for name, field in schema.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            yield from (f"{name}.{path}" for path in setting_paths(section))
        else:
            yield name


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one mapping from dotted paths to values."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def nearest(name: str, known: Iterator[str]) -> str | None:
    """The known dotted path that `name` most likely meant; a section may have been forgotten."""
    by_spelling: dict[str, str] = {}
    for path in known:
        by_spelling.setdefault(path.rpartition(".")[2], path)
        by_spelling[path] = path
    close = get_close_matches(name, by_spelling, n=1, cutoff=0.7)
    return by_spelling[close[0]] if close else None


S = TypeVar("S", bound=Section)


def load_config(yaml_path: str | Path | None, overrides: Mapping[str, str]) -> EvalConfig:
    """Settings of an evaluation from a YAML file (optional) with dotted overrides on top.

    Raises:
        ConfigError: naming every key that is unknown, missing or has a value that cannot be used.
    """
    return load_settings(EvalConfig, yaml_path, overrides)


def load_settings(
    schema: type[S],
    yaml_path: str | Path | None,
    overrides: Mapping[str, str],
    belongs: Callable[[str], str | None] = lambda _: None,
) -> S:
    """Settings of any schema, in the manner of `load_config`. `belongs` says of a key in vain where it would count."""
    settings = {} if yaml_path is None else _read_yaml(Path(yaml_path))
    for path, value in overrides.items():
        _put(settings, path, yaml.safe_load(value) if path == "engine.extra" else value)
    try:
        return schema.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(_report(error, schema, yaml_path, overrides, belongs)) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path} is not valid YAML: {place}{error.problem}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} has to hold settings like `samples: 4`, one a line, not {settings!r}")
    return settings


def _put(settings: dict[str, Any], path: str, value: Any) -> None:
    *sections, key = path.split(".")
    for section in sections:
        inner = settings.get(section)
        settings[section] = inner = dict(inner) if isinstance(inner, dict) else {}
        settings = inner
    settings[key] = value


def _report(
    error: ValidationError,
    schema: type[Section],
    yaml_path: str | Path | None,
    overrides: Mapping[str, str],
    belongs: Callable[[str], str | None],
) -> str:
    problems = []
    from_file = False
    for detail in error.errors(include_url=False):
        path = _dotted(detail["loc"])
        setting = path.partition("[")[0]
        typed = setting in overrides or yaml_path is None
        from_file |= not typed
        problems.append((flag_of(setting) if typed and setting else path, _reword(detail, path, schema, belongs)))
    if not from_file and len(problems) == 1:
        return ": ".join(filter(None, problems[0]))  # what several settings are together is at no place
    source = str(yaml_path) if from_file else "the command line"
    width = max(len(where) for where, _ in problems)
    lines = [f"  {where:<{width}}   {what}" for where, what in problems]
    return "\n".join([f"{source} has {len(problems)} problem{'s' * (len(problems) > 1)}", *lines])


def flag_of(setting: str) -> str:
    """How the command line spells a setting: `--top-p`, `--engine.max_num_seqs`."""
    section, _, name = setting.rpartition(".")
    return "--" + (name.replace("_", "-") if section in ("", "sampling") else setting)


def _dotted(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _reword(detail: ErrorDetails, path: str, schema: type[Section], belongs: Callable[[str], str | None]) -> str:
    """One of pydantic's errors in the words of a person who wants to go on."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    match kind:
        case "extra_forbidden":
            place = belongs(path)
            if place is not None:
                return f"belongs below {place}:"
            meant = nearest(path, setting_paths(schema))
            return "unknown key" + (f"; did you mean {meant}?" if meant else "")
        case "missing":
            return "missing" + ("; for example 1k,10k,50k" if path == "budgets" else "")
        case "value_error":
            return str(context["error"])
        case "int_parsing" | "int_type" | "int_from_float":
            return f"{value!r} is not a whole number"
        case "float_parsing" | "float_type":
            return f"{value!r} is not a number"
        case "bool_parsing" | "bool_type":
            return f"{value!r} is neither true nor false"
        case "string_type":
            return f"{value!r} is not text; put it in quotes"
        case "string_too_short":
            return "must not be empty"
        case "literal_error":
            return f"{value!r} is not {context['expected']}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{value!r} is not a section; write the keys below it, indented"
        case "greater_than_equal" | "greater_than":
            return f"{value} is too small; {_limit(kind, context)}"
        case "less_than_equal" | "less_than":
            return f"{value} is too large; {_limit(kind, context)}"
        case _:
            return f"{value!r}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _limit(kind: str, context: Mapping[str, Any]) -> str:
    words = {"greater_than_equal": ("at least", "ge"), "greater_than": ("more than", "gt")}
    words |= {"less_than_equal": ("at most", "le"), "less_than": ("less than", "lt")}
    word, key = words[kind]
    return f"it has to be {word} {context[key]:g}"
