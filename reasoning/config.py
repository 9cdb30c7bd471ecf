"""Reading settings: one schema, filled from a YAML file and from dotted overrides.

Both sources become one nested mapping that is validated once, so a setting behaves the same wherever it
was written, and every problem is reported at once with the place to correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
)
from pydantic_core import ErrorDetails


class ConfigError(ValueError):
    """Settings that cannot be used; the message is ready to show."""


class Section(BaseModel):
    """Frozen, and closed to keys that nobody reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def load_settings(
    schema: type[S],
    yaml_path: str | Path | None,
    overrides: Mapping[str, str],
    belongs: Callable[[str], str | None] = lambda _: None,
) -> S:
    """Settings of any schema, from a YAML file (optional) with dotted overrides on top.

    `belongs` says of a key in vain where it would count.

    Raises:
        ConfigError: naming every key that is unknown, missing or has a value that cannot be used.
    """
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
