"""Named sets of programming problems: how the rows of each source become records of code tasks.

HumanEval (Chen et al. 2021), MBPP, its hand-verified part (Austin et al. 2021), and contest problems with inputs and
outputs: the rows of CodeContests (Li et al. 2022), or of a local file with `tests` of `input`, `output` and `public`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reasoning.tasks.named import NamedSet, Row
from reasoning.tasks.records import Record

_PYTHON_3 = 3  # of the languages that CodeContests numbers


def _humaneval(row: Row, number: int, split: str, config: str | None) -> Record:
    prompt, entry = row["prompt"], row["entry_point"]
    return {
        "id": f"humaneval-{int(str(row['task_id']).rpartition('/')[2]):03d}",
        "problem": f"Complete this Python function:\n\n```python\n{prompt.strip()}\n```",
        "tests": {"type": "assert", "code": f"{row['test'].rstrip()}\n\ncheck({entry})\n"},
        "entry_point": entry,
        "prefix": prompt,
        "solution": prompt + row["canonical_solution"],
    }


def _mbpp(row: Row, number: int, split: str, config: str | None) -> Record:
    asserts = "\n".join(row["test_list"])
    called = [name for name in re.findall(r"^def\s+(\w+)", row["code"], re.MULTILINE) if f"{name}(" in asserts]
    return {
        "id": f"mbpp-{int(row['task_id']):04d}",
        "problem": f"{row['prompt'].strip()}\n\nYour program must pass these tests:\n\n```python\n{asserts}\n```",
        "tests": {"type": "assert", "code": "\n".join([*row["test_imports"], asserts]) + "\n"},
        "solution": row["code"],
        "entry_point": called[-1] if called else None,
    }


def _stdio(row: Row, number: int, split: str, config: str | None) -> Record:
    if "public_tests" in row:
        return _code_contests(row, number, split)
    cases = [_case(test["input"], test["output"], public=bool(test.get("public"))) for test in row["tests"]]
    return {
        "id": row["id"],
        "problem": row["prompt"],
        "tests": _by_tokens(cases),
        "level": row.get("level"),
        "solution": next(iter(row.get("solutions") or ()), None),
    }


def _code_contests(row: Row, number: int, split: str) -> Record:
    cases = [
        _case(given, wanted, public=field == "public_tests")
        for field in ("public_tests", "private_tests", "generated_tests")
        for given, wanted in zip(row[field]["input"], row[field]["output"], strict=True)
    ]
    written = zip(row["solutions"]["language"], row["solutions"]["solution"], strict=True)
    return {
        "id": f"codecontests-{split}-{number:05d}",
        "problem": row["description"],
        "tests": _by_tokens(cases),
        "solution": next((program for language, program in written if language == _PYTHON_3), None),
    }


def _case(given: str, wanted: str, *, public: bool) -> Mapping[str, Any]:
    return {"stdin": given, "stdout": wanted, "public": public}


def _by_tokens(cases: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Public tests first: what fails is then named by the first test that everybody may see."""
    return {"type": "stdio", "compare": "tokens", "cases": sorted(cases, key=lambda case: not case["public"])}


CODE_SETS: dict[str, NamedSet] = {
    "humaneval": NamedSet("openai/openai_humaneval", {"test": "test"}, "code", _humaneval),
    "mbpp": NamedSet(
        "google-research-datasets/mbpp", {"test": "test", "train": "train"}, "code", _mbpp, ("sanitized",)
    ),
    "stdio": NamedSet("deepmind/code_contests", {"test": "test", "train": "train"}, "code", _stdio),
}
