"""Hostile, odd and honest programs with the verdicts they should get, run as the benchmark runs them."""

import json
from pathlib import Path

import pytest

from benchmarks import sandbox_cases
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
CASES = [json.loads(line) for line in Path(__file__).with_name("cases.jsonl").read_text().splitlines()]
QUICK = ("hack-", "cmp-", "ok-", "bad-")
SLOW = {"ok-big-io", "ok-process-manager", "ok-unittest"}


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["id"].startswith(QUICK) and case["id"] not in SLOW], ids=lambda c: c["id"]
)
def test_verdict(case):
    result = sandbox_cases.grade(case)
    assert result["verdict"] in case["accept"], result
    if "per_test" in case:
        assert result["per_test"] == case["per_test"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_all_cases_with_what_must_hold_on_the_host(tmp_path):
    assert sandbox_cases.main([str(Path(__file__).with_name("cases.jsonl")), "--json", str(tmp_path / "out.json")]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert [row["id"] for row in rows] == [case["id"] for case in CASES]
    assert all(row["held"] for row in rows)
