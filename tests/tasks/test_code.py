"""Code tasks: named sets from the rows of their sources, users' own records, and records that are refused."""

import json
from pathlib import Path

import pytest

from reasoning.tasks import TaskError, TaskSpec, data_hash, load_tasks
from reasoning.tasks.code_sets import CODE_SETS
from reasoning.tasks.named import NamedSet, load_hub
from verifiers.code import tests_of as read_tests
from verifiers.sandbox import AssertTests, CallTests, Limits, StdioTests

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "code"

ROWS = {
    "humaneval": {
        "task_id": "HumanEval/7",
        "prompt": 'import math\n\ndef inc(x):\n    """Adds one."""\n',
        "entry_point": "inc",
        "canonical_solution": "    return x + 1\n",
        "test": "def check(candidate):\n    assert candidate(1) == 2\n",
    },
    "mbpp": {
        "source_file": "x.ipynb",
        "task_id": 11,
        "prompt": "Write a function to add one.",
        "code": "def helper(x):\n    return x\ndef inc(x):\n    return helper(x) + 1",
        "test_imports": ["import math"],
        "test_list": ["assert inc(1) == 2", "assert inc(2) == 3"],
    },
    "stdio": {
        "id": "round-a",
        "title": "A",
        "prompt": "Add one.",
        "tests": [
            {"input": "5\n", "output": "6\n", "public": False, "name": "secret"},
            {"input": "1\n", "output": "2\n", "public": True, "name": "sample"},
        ],
        "level": 6,
        "solutions": ["print(int(input()) + 1)"],
    },
}
CONTEST = {
    "name": "1_A. Add",
    "description": "Add one.",
    "public_tests": {"input": ["1\n"], "output": ["2\n"]},
    "private_tests": {"input": [], "output": []},
    "generated_tests": {"input": ["5\n"], "output": ["6\n"]},
    "solutions": {"language": [1, 2, 3], "solution": ["print raw_input()", "int main;", "print(int(input()) + 1)"]},
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def one(tmp_path, name, row):
    (task,) = load_tasks(TaskSpec(name, path=write(tmp_path / "rows.jsonl", row)))
    assert task.verifier == "code"
    return task


def test_humaneval(tmp_path):
    task = one(tmp_path, "humaneval", ROWS["humaneval"])
    assert task.id == "humaneval-007"
    asked = task.prompt[0]["content"]
    assert asked.startswith(
        'Complete this Python function:\n\n```python\nimport math\n\ndef inc(x):\n    """Adds one."""\n```'
    )
    assert "one fenced ```python block" in asked
    tests, limits = read_tests(task.meta)
    assert tests == AssertTests("def check(candidate):\n    assert candidate(1) == 2\n\ncheck(inc)\n")
    assert limits == Limits()
    assert task.meta["solution"] == 'import math\n\ndef inc(x):\n    """Adds one."""\n    return x + 1\n'
    assert (task.meta["entry_point"], task.meta["prefix"]) == ("inc", ROWS["humaneval"]["prompt"])


def test_mbpp(tmp_path):
    task = one(tmp_path, "mbpp", ROWS["mbpp"])
    assert task.id == "mbpp-0011"
    assert "Write a function to add one.\n\nYour program must pass these tests:" in task.prompt[0]["content"]
    assert read_tests(task.meta)[0] == AssertTests("import math\nassert inc(1) == 2\nassert inc(2) == 3\n")
    assert (task.meta["entry_point"], task.meta["solution"]) == ("inc", ROWS["mbpp"]["code"])


def test_stdio_puts_public_tests_first(tmp_path):
    task = one(tmp_path, "stdio", ROWS["stdio"])
    assert (task.id, task.level, task.meta["solution"]) == ("round-a", "6", "print(int(input()) + 1)")
    assert read_tests(task.meta)[0] == StdioTests((("1\n", "2\n"), ("5\n", "6\n")), "tokens")
    assert [case["public"] for case in task.meta["tests"]["cases"]] == [True, False]
    assert "reads standard input and writes standard output" in task.prompt[0]["content"]


def test_code_contests(tmp_path):
    task = one(tmp_path, "stdio", CONTEST)
    assert read_tests(task.meta)[0] == StdioTests((("1\n", "2\n"), ("5\n", "6\n")), "tokens")
    assert task.meta["solution"] == "print(int(input()) + 1)"
    assert "solution" not in one(tmp_path, "stdio", CONTEST | {"solutions": {"language": [], "solution": []}}).meta


@pytest.mark.parametrize("name", list(ROWS))
def test_the_hub_and_a_local_copy_give_the_same_records(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "hub").mkdir()
    path = write(tmp_path / "hub" / "test.jsonl", ROWS[name])
    source = NamedSet(str(tmp_path / "hub"), {"test": "test"}, "code", CODE_SETS[name].to_record)
    monkeypatch.setitem(CODE_SETS, name, source)
    ((_, record),) = load_hub(name, source, "test", None)
    local = load_tasks(TaskSpec(name, path=path))
    assert data_hash(load_tasks(TaskSpec(write(tmp_path / "records.jsonl", record)))) == data_hash(local)


def test_a_local_copy_may_hold_records(tmp_path):
    record = {"id": "a", "problem": "p", "tests": {"type": "assert", "code": "assert f() == 1"}}
    assert one(tmp_path, "mbpp", record).id == "a"


def test_rows_of_something_else_are_refused(tmp_path):
    with pytest.raises(TaskError, match=r"rows.jsonl, line 1: not the fields that were expected of mbpp: KeyError"):
        one(tmp_path, "mbpp", ROWS["humaneval"])


@pytest.mark.parametrize(("name", "file", "count"), [
    ("humaneval", "HumanEval.jsonl", 164), ("mbpp", "mbpp_sanitized.jsonl", 427), ("stdio", "stdio_sample.jsonl", 100),
])  # fmt: skip
def test_local_copies(name, file, count):
    path = SHARED / file
    if not path.exists():
        pytest.skip(f"{file} is not there")
    tasks = load_tasks(TaskSpec(name, path=str(path)))
    assert len(tasks) == count
    assert sum("solution" in task.meta for task in tasks) == (17 if name == "stdio" else count)
    assert sum("entry_point" in task.meta for task in tasks) == (0 if name == "stdio" else count)


CALL = {"type": "call", "entry": "Solution().f", "cases": [{"args": [1], "expected": 2}]}
STDIO = {"type": "stdio", "compare": "float:1e-6", "cases": [{"stdin": "1\n", "stdout": "2.0\n"}]}


def test_users_records_in_the_three_forms(tmp_path):
    forms = ({"type": "assert", "code": "assert f(1) == 2\n"}, CALL, STDIO)
    records: list[dict[str, object]] = [{"id": n, "problem": "p", "tests": tests} for n, tests in enumerate(forms)]
    records[0]["limits"] = {"timeout_s": 3, "memory_mb": 256}
    tasks = load_tasks(TaskSpec(write(tmp_path / "own.jsonl", *records)))
    assert [task.verifier for task in tasks] == ["code"] * 3
    assert [task.reference for task in tasks] == ["all tests pass"] * 3
    assert read_tests(tasks[0].meta) == (AssertTests("assert f(1) == 2\n"), Limits(timeout_s=3, memory_mb=256))
    assert read_tests(tasks[1].meta)[0] == CallTests("Solution().f", (((1,), 2),))
    assert read_tests(tasks[2].meta)[0] == StdioTests((("1\n", "2.0\n"),), "float:1e-6")


def test_code_and_mathematics_in_one_file(tmp_path):
    path = write(
        tmp_path / "own.jsonl",
        {"id": "a", "problem": "p", "answer": 1},
        {"id": "b", "problem": "p", "tests": CALL, "verifier": "code"},
    )
    assert [task.verifier for task in load_tasks(TaskSpec(path))] == ["math", "code"]


def test_formats_without_nesting_hold_the_tests_as_json(tmp_path):
    path = tmp_path / "own.csv"
    quoted = json.dumps(CALL).replace('"', '""')
    path.write_text(f'id,problem,tests\na,p,"{quoted}"\n')
    (task,) = load_tasks(TaskSpec(str(path)))
    assert task.meta["tests"] == CALL


GOOD = {"id": "a", "problem": "p", "tests": CALL}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tests": {"type": "asert"}}, r"test.type is 'asert'; write one of assert, call, stdio"),
        ({"tests": {"type": "assert", "code": " "}}, "test.code is empty"),
        ({"tests": CALL | {"cases": []}}, "test.cases must be a list with at least one case"),
        ({"tests": CALL | {"cases": [{"args": 1}]}}, r"test.cases\[0\].args must be a list"),
        ({"tests": CALL | {"compare": "lines"}}, "unknown comparison 'lines' for call tests; write python_eq"),
        ({"tests": [CALL]}, "test must be an object, not list"),
        ({"tests": "{"}, "the field 'tests' is not JSON"),
        ({"tests": None, "verifier": "code"}, "tests are missing"),
        ({"limits": {"timeout_s": 0}}, "limits.timeout_s is 0; it must be a positive number"),
        ({"limits": {"time": 1}}, "limits.time is unknown; write timeout_s, memory_mb"),
        ({"limits": 5}, "limits must be an object"),
        ({"language": "cpp"}, "programs in 'cpp' cannot be run; the language can only be python"),
        ({"solution": ["x = 1"]}, "the field 'solution' must be text, not list"),
        ({"problem": None}, "the field 'problem' is missing"),
    ],
)
def test_bad_records_name_their_place(tmp_path, change, message):
    path = write(tmp_path / "own.jsonl", GOOD | {"id": "first"}, GOOD | change)
    with pytest.raises(TaskError, match=r"own.jsonl, line 2: " + message):
        load_tasks(TaskSpec(path))
