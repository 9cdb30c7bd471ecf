"""Verifiers grade answers. They know nothing of models, budgets or runs.

Importing this package loads no heavy library: computer algebra lives in worker processes that start when needed.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from verifiers import math, sandbox
from verifiers.base import Status, Verdict, Verifier
from verifiers.code import verify_code
from verifiers.countdown import verify_countdown
from verifiers.math import verify_math
from verifiers.numeric import verify_numeric

VERIFIERS: dict[str, Verifier] = {
    "countdown": verify_countdown,
    "numeric": verify_numeric,
    "math": verify_math,
    "code": verify_code,
}


def grade(verifier: str, answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """The verdict on the text of one answer. Never raises: a failure of the verifier is a verdict too. Thread-safe."""
    started = time.perf_counter()
    try:
        verdict = VERIFIERS[verifier](answer, reference, meta)
    except Exception as error:  # noqa: BLE001 - a named boundary: one bad case must not end a run
        verdict = Verdict(Status.ERROR, None, reference, verifier, detail=f"{type(error).__name__}: {error}")
    return verdict if verdict.seconds else replace(verdict, seconds=time.perf_counter() - started)


def close() -> None:
    """Stop the worker processes. They start again when needed."""
    math.close()
    sandbox.close()


atexit.register(close)
