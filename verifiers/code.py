"""Programs: does the program in this answer pass all its tests? It runs in the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.program import find_program
from verifiers.sandbox import (
    CallTests,
    Limits,
    Outcome,
    Report,
    SandboxUnavailable,
    Tests,
    Tier,
    parse_tests,
    run_tests,
)

_STATUS = {Outcome.PASS: Status.CORRECT, Outcome.SANDBOX_ERROR: Status.ERROR}


def verify_code(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`meta["tests"]` are tests in the form of `verifiers.sandbox.parse_tests`; `reference` only describes them.

    `meta` may also have `limits` (fields of `verifiers.sandbox.Limits`), `entry_point` (what the tests call), `prefix`
    (the beginning of a program that the answer completes) and `fair` (see `verifiers.sandbox.Sandbox.run_tests`). The
    verdict's `rule` is what the sandbox found; `score` is the share of tests that passed. A program that is too slow or
    too large is wrong, not a failure of the verifier: its `rule` says so. What says nothing about the program
    (`sandbox_error`) has no score.
    """
    program = find_program(answer, defines=_called_name(tests_of(meta)[0], meta), prefix=meta.get("prefix", ""))
    if program.text is None:
        return Verdict(Status.NO_ANSWER, None, reference, "code", detail=program.problem, rule="no_program", score=0.0)
    report = run_program(program.text, meta)
    return Verdict(
        status=_STATUS.get(report.outcome, Status.WRONG),
        extracted=program.text,
        reference=reference,
        verifier="code",
        seconds=report.seconds,
        detail=describe(report),
        rule=report.outcome.value,
        span=program.span,
        score=None if report.outcome is Outcome.SANDBOX_ERROR else _share_passed(report),
        starved=report.starved,
    )


def run_program(program: str, meta: Mapping[str, Any]) -> Report:
    """What comes of a program that is tested as a task's `meta` says.

    Raises:
        ValueError: the tests or limits cannot be used.
        SandboxUnavailable: this system cannot give the isolation that was asked for.
    """
    tests, limits = tests_of(meta)
    return run_tests(program, tests, limits, fair=meta.get("fair", True))


def require_sandbox() -> str:
    """Start the sandbox and try it. Returns its tier: programs will run in it, or in none.

    Raises:
        SandboxUnavailable: this system does not give what is asked for; the message says why and what to do.
    """
    report = run_tests("def f(x):\n    return x\n", CallTests("f", (((1,), 1),)))
    if report.outcome is not Outcome.PASS:
        raise SandboxUnavailable(
            f"the sandbox does not work here: a right program gave {report.outcome} ({report.detail}); "
            "`python -m verifiers.sandbox doctor` says more"
        )
    return report.tier.value


def tests_of(meta: Mapping[str, Any]) -> tuple[Tests, Limits]:
    """The tests of a task and the limits that it sets, else the default ones.

    Raises:
        ValueError: naming the field that cannot be used.
    """
    if "tests" not in meta:
        raise ValueError("tests are missing")
    limits = meta.get("limits", {})
    if not isinstance(limits, Mapping):
        raise ValueError(f'limits must be an object such as {{"timeout_s": 5}}, not {limits!r}')
    unknown = sorted(set(limits) - set(Limits.__dataclass_fields__))
    if unknown:
        raise ValueError(f"limits.{unknown[0]} is unknown; write {', '.join(Limits.__dataclass_fields__)}")
    return parse_tests(meta["tests"]), Limits(**limits)


def _called_name(tests: Tests, meta: Mapping[str, Any]) -> str:
    """The name that a program must define to be tested at all, where that is known."""
    if isinstance(tests, CallTests):
        name = re.match(r"\w*", tests.entry.strip())
        return name[0] if name else ""
    return meta.get("entry_point", "")


def _share_passed(report: Report) -> float:
    return sum(test.outcome is Outcome.PASS for test in report.tests) / max(1, len(report.tests))


def describe(report: Report) -> str:
    """What kept the program from passing, and what weakens the verdict."""
    facts = []
    if report.tier is not Tier.FULL:
        facts.append(f"sandbox tier {report.tier}")
    if report.trust != "split":
        facts.append("program and tests shared an interpreter")
    failed = next(((n, test) for n, test in enumerate(report.tests, 1) if test.outcome is not Outcome.PASS), None)
    if failed is not None:
        number, test = failed
        facts.append(f"test {number} of {len(report.tests)}: {test.outcome}" + (f": {test.detail}" * bool(test.detail)))
    return "; ".join(facts)
