"""Tasks whose answer is a program: what a record of one holds, and what its prompt asks for.

A record has `id`, `problem` and `tests`, in one of the three forms of `verifiers.sandbox.parse_tests`. It may have
`solution` (a program that passes, for --calibrate), `limits`, `entry_point` (the name that assert tests call), `prefix`
(the beginning of a program that the answer completes) and `language`, which can only be Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reasoning.tasks.base import TaskError
from verifiers.code import tests_of

REFERENCE = "all tests pass"
PYTHON = ("python", "python3", "py")

_FUNCTION = "\n\nEnd your answer with one fenced ```python block that holds the whole program, imports included."
_PROGRAM = (
    "\n\nThe program reads standard input and writes standard output. "
    "End your answer with one fenced ```python block that holds the whole program."
)
ANSWER_FORM = {"assert": _FUNCTION, "call": _FUNCTION, "stdio": _PROGRAM}
"""What a prompt says behind the problem, by the form of the tests."""
_TEXTS = ("solution", "entry_point", "prefix")


def code_meta(place: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """What the verifier needs of a record, and its solution: the `meta` of the task.

    Raises:
        TaskError: naming the place and the field.
    """
    language = record.get("language")
    if language is not None and str(language).lower() not in PYTHON:
        raise TaskError(f"{place}: programs in '{language}' cannot be run; the language can only be python")
    meta = {name: _object(place, record, name) for name in ("tests", "limits") if record.get(name) is not None}
    meta |= {name: record[name] for name in _TEXTS if record.get(name) is not None}
    for name in _TEXTS:
        if name in meta and not isinstance(meta[name], str):
            raise TaskError(f"{place}: the field '{name}' must be text, not {type(meta[name]).__name__}")
    try:
        tests_of(meta)
    except ValueError as error:
        raise TaskError(f"{place}: {error}") from None
    return meta


def _object(place: str, record: Mapping[str, Any], name: str) -> Any:
    """A field that holds a JSON object, which formats without nesting write as text."""
    value = record[name]
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise TaskError(f"{place}: the field '{name}' is not JSON: {error.msg} at column {error.colno}") from None
