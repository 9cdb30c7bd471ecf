"""Running untrusted Python programs, with verdicts that they cannot forge. Standard library only; for POSIX systems."""

from __future__ import annotations

from verifiers.sandbox.parse import parse_tests
from verifiers.sandbox.pool import BOXES, Sandbox, close, run_tests
from verifiers.sandbox.types import (
    AssertTests,
    CallTests,
    Limits,
    Outcome,
    Report,
    SandboxUnavailable,
    StdioTests,
    TestResult,
    Tests,
    Tier,
)

__all__ = [
    "BOXES",
    "AssertTests",
    "CallTests",
    "Limits",
    "Outcome",
    "Report",
    "Sandbox",
    "SandboxUnavailable",
    "StdioTests",
    "TestResult",
    "Tests",
    "Tier",
    "close",
    "parse_tests",
    "run_tests",
]
