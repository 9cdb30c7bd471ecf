"""Tests from their JSON form, with errors that name the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifiers.sandbox.types import AssertTests, CallTests, StdioTests, Tests

_FORMS = ("assert", "call", "stdio")


def parse_tests(record: Mapping[str, Any]) -> Tests:
    """Tests from `{"type": "assert", "code"}`, `{"type": "call", "entry", "cases": [{"args", "expected"}]}` or
    `{"type": "stdio", "cases": [{"stdin", "stdout"}]}`. The last two may have `compare`.

    A long text may be written in parts: `"stdin_parts": [[text, times], ...]`.

    Raises:
        ValueError: naming the field.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"test must be an object, not {type(record).__name__}")
    form = record.get("type")
    if form == "assert":
        shared = record.get("shared_state", False)
        if not isinstance(shared, bool):
            raise ValueError(f"test.shared_state must be true or false, not {shared!r}")
        return AssertTests(_text(record, "code", "test"), shared)
    if form == "call":
        cases = tuple(_call_case(case, f"test.cases[{i}]") for i, case in enumerate(_cases(record)))
        return CallTests(_text(record, "entry", "test"), cases, _compare(record, "python_eq"))
    if form == "stdio":
        cases = tuple(_stdio_case(case, f"test.cases[{i}]") for i, case in enumerate(_cases(record)))
        return StdioTests(cases, _compare(record, "lines"))
    raise ValueError(f"test.type is {form!r}; write one of {', '.join(_FORMS)}")


def _cases(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    cases = record.get("cases")
    if not isinstance(cases, list) or not cases:
        raise ValueError("test.cases must be a list with at least one case")
    for i, case in enumerate(cases):
        if not isinstance(case, Mapping):
            raise ValueError(f"test.cases[{i}] must be an object, not {type(case).__name__}")
    return cases


def _compare(record: Mapping[str, Any], default: str) -> str:
    return _text(record, "compare", "test") if "compare" in record else default


def _call_case(case: Mapping[str, Any], where: str) -> tuple[tuple[Any, ...], Any]:
    if not isinstance(case.get("args"), list):
        raise ValueError(f"{where}.args must be a list of arguments")
    if "expected" not in case:
        raise ValueError(f"{where}.expected is missing")
    return tuple(case["args"]), case["expected"]


def _stdio_case(case: Mapping[str, Any], where: str) -> tuple[str, str]:
    return _long_text(case, "stdin", where), _long_text(case, "stdout", where)


def _long_text(case: Mapping[str, Any], field: str, where: str) -> str:
    parts = case.get(f"{field}_parts")
    if parts is None:
        return _text(case, field, where)
    try:
        return "".join(str.__mul__(text, times) for text, times in parts)
    except (TypeError, ValueError):
        raise ValueError(f"{where}.{field}_parts must be a list of [text, times]") from None


def _text(record: Mapping[str, Any], field: str, where: str) -> str:
    value = record.get(field)
    if not isinstance(value, str):
        raise ValueError(f"{where}.{field} must be text, not {type(value).__name__}")
    return value
