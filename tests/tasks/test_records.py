"""Users' files and named sets: good records become tasks, bad ones are refused with their place."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from reasoning.tasks import TASKS, TaskError, TaskSpec, data_hash, load_tasks
from reasoning.tasks.named import NAMED_SETS, NamedSet, load_hub
from reasoning.types import Task

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "math"
RECORDS = [
    {"id": "a", "problem": "What is 1 + 1?", "answer": "2", "level": 1, "verifier": "numeric"},
    {"id": 7, "problem": "Löse x = 1, bitte", "answer": 1},
    {"id": "c", "problem": "Two\nlines", "answer": 0.5},
]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.fixture(params=["jsonl", "csv", "parquet"])
def file(request, tmp_path):
    """The same three records in every format."""
    path = tmp_path / f"mine.{request.param}"
    if request.param == "jsonl":
        path.write_text("\n".join(json.dumps(record) for record in RECORDS) + "\n\n")
    elif request.param == "csv":
        with path.open("w", newline="", encoding="utf-8-sig") as out:
            rows = csv.DictWriter(out, list(RECORDS[0]))
            rows.writeheader()
            rows.writerows(RECORDS)
    else:
        fields = RECORDS[0]
        rows = [{field: None if field not in r else str(r[field]) for field in fields} for r in RECORDS]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return str(path)


def test_every_format_gives_the_same_tasks(file):
    first, second, third = load_tasks(TaskSpec(file))
    assert (first.id, first.reference, first.verifier, first.level) == ("a", "2", "numeric", "1")
    assert (second.id, second.reference, second.verifier, second.level) == ("7", "1", "math", None)
    assert second.prompt[0]["content"].startswith("Löse x = 1, bitte\n\n")
    assert "\\boxed{}" in second.prompt[0]["content"]
    assert third.prompt[0]["content"].startswith("Two\nlines")
    assert third.reference == "0.5"


def test_the_verifier_of_the_record_comes_first(file):
    verifiers = [task.verifier for task in load_tasks(TaskSpec(file, verifier="numeric"))]
    assert verifiers == ["numeric", "numeric", "numeric"]
    assert load_tasks(TaskSpec(file, verifier="math"))[0].verifier == "numeric"


def test_limit_takes_the_first_of_a_seeded_shuffle(tmp_path):
    rows = [json.dumps({"id": n, "problem": "p", "answer": n}) for n in range(50)]
    path = write(tmp_path / "many.jsonl", "\n".join(rows))

    def ids(**options):
        return [task.id for task in load_tasks(TaskSpec(path, **options))]

    assert ids() == [str(n) for n in range(50)]
    assert ids(limit=5) == ids(limit=50)[:5]
    assert ids(limit=5) != ids(limit=5, seed=1)
    assert sorted(ids(limit=99)) == sorted(ids())


def test_countdown_records_carry_their_numbers(tmp_path):
    line = json.dumps({"id": 1, "problem": "p", "answer": 3, "verifier": "countdown", "numbers": [1, 2]})
    (task,) = load_tasks(TaskSpec(write(tmp_path / "c.jsonl", line)))
    assert task.meta == {"numbers": [1, 2]}


GOOD = '{"id": "a", "problem": "p", "answer": "1"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", "", "x.jsonl: has no records"),
        ("x.jsonl", "\n \n", "has no records"),
        ("x.jsonl", GOOD + "{not json", "line 2, column 2: not JSON"),
        ("x.jsonl", GOOD + "[" * 100_000, "line 2: not JSON"),
        ("x.jsonl", GOOD + "[1]", "line 2: a JSON object was expected, not list"),
        ("x.jsonl", GOOD.encode() + b'{"id": "\xff"}', "line 2: not UTF-8"),
        ("x.jsonl", GOOD + GOOD, "line 2: the id 'a' is already taken by .*line 1"),
        (
            "x.jsonl",
            '{"id": "a", "answer": "1"}',
            "line 1: the field 'problem' is missing; the fields found are id, answer",
        ),
        ("x.jsonl", '{"id": "a", "problem": "p", "answer": null}', "'answer' is missing"),
        ("x.jsonl", '{"id": "a", "problem": "p", "answer": " "}', "'answer' is empty"),
        ("x.jsonl", '{"id": "a", "problem": ["p"], "answer": "1"}', "'problem' must be text or a number, not list"),
        ("x.jsonl", '{"id": true, "problem": "p", "answer": "1"}', "not bool"),
        ("x.jsonl", GOOD[:-2] + ', "verifier": "maths"}', "line 1: unknown verifier 'maths'; did you mean 'math'?"),
        (
            "x.jsonl",
            GOOD[:-2] + ', "verifier": "countdown"}',
            "line 1: the verifier 'countdown' needs the list 'numbers'",
        ),
        ("x.csv", "", "has no records"),
        ("x.csv", "id,problem,answer\n", "has no records"),
        ("x.csv", "id,problem,answer\na,p\n", "line 2: the field 'answer' is missing"),
        ("x.csv", "id,problem,answer\na,p,1,2\n", "line 2: more columns"),
        ("x.csv", 'id,problem,answer\na,"p\nq",1\nb,"p,1\n', "line 4: not CSV"),
        ("x.csv", b"id,problem,answer\na,\xff,1\n", "not UTF-8"),
        ("x.parquet", "nonsense", "x.parquet: not a Parquet file"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    with pytest.raises(TaskError, match=message):
        load_tasks(TaskSpec(write(tmp_path / name, content)))


def test_bad_names(tmp_path):
    with pytest.raises(TaskError, match="unknown tasks 'gsm9k'; did you mean 'gsm8k'"):
        load_tasks(TaskSpec("gsm9k"))
    with pytest.raises(TaskError, match="there is no such file"):
        load_tasks(TaskSpec(str(tmp_path / "absent.jsonl")))
    with pytest.raises(TaskError, match=r"cannot read '\.txt' files"):
        load_tasks(TaskSpec("gsm8k", path=write(tmp_path / "x.txt", GOOD)))
    with pytest.raises(TaskError, match="unknown verifier 'mth'; did you mean 'math'"):
        load_tasks(TaskSpec(write(tmp_path / "x.jsonl", GOOD), verifier="mth"))
    with pytest.raises(TaskError, match="is a file already"):
        load_tasks(TaskSpec(write(tmp_path / "x.jsonl", GOOD), path="y.jsonl"))


def test_a_named_set_from_a_local_file(tmp_path):
    path = write(tmp_path / "mine.jsonl", GOOD)
    assert load_tasks(TaskSpec("gsm8k", path=path))[0].verifier == "numeric"
    assert load_tasks(TaskSpec("math500", path=path))[0].verifier == "math"
    assert load_tasks(TaskSpec("math500", path=path, verifier="numeric"))[0].verifier == "numeric"


HUB_ROWS = {
    "gsm8k": {"question": "Q?", "answer": "9 * 2 = <<9*2=1018>>1018\n#### 1,018"},
    "math500": {"unique_id": "test/precalculus/807.json", "problem": "Q?", "answer": "(3, 4)", "level": 2},
    "aime24": {"ID": "2024-II-4", "Problem": "Q?", "Solution": "...", "Answer": 33},
    "aime25": {"question": "Q?", "answer": "70"},
    "amc23": {"id": 0, "question": "Q?", "answer": "27.0", "url": "https://x/2023_AMC_12A_Problems/Problem_21"},
}
RECORDS_OF_HUB_ROWS = {
    "gsm8k": {"id": "gsm8k-test-00003", "problem": "Q?", "answer": "1018"},
    "math500": {"id": "math500-test-precalculus-807", "problem": "Q?", "answer": "(3, 4)", "level": 2},
    "aime24": {"id": "aime24-II-4", "problem": "Q?", "answer": "33", "level": 4},
    "aime25": {"id": "aime25-II-4", "problem": "Q?", "answer": "70", "level": 4},
    "amc23": {"id": "amc23-12A-21", "problem": "Q?", "answer": "27", "level": 21},
}


@pytest.mark.parametrize("name", NAMED_SETS)
def test_hub_rows_become_the_same_records(name):
    named = NAMED_SETS[name]
    assert named.to_record(HUB_ROWS[name], 3, "test", named.configs[-1]) == RECORDS_OF_HUB_ROWS[name]


def test_sets_come_through_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "test.jsonl").write_text(json.dumps(HUB_ROWS["gsm8k"]) + "\n")
    gsm8k = NAMED_SETS["gsm8k"]
    local = NamedSet(str(tmp_path), gsm8k.splits, gsm8k.verifier, gsm8k.to_record)
    ((place, record),) = load_hub("gsm8k", local, "test", None)
    assert record == {"id": "gsm8k-test-00000", "problem": "Q?", "answer": "1018"}
    assert place.endswith("row 0")
    with pytest.raises(TaskError, match="no split 'dev'; write test or train"):
        list(load_hub("gsm8k", local, "dev", None))
    with pytest.raises(TaskError, match="not the fields that were expected of math500"):
        list(
            load_hub(
                "math500",
                NamedSet(str(tmp_path), {"test": "test"}, "math", NAMED_SETS["math500"].to_record),
                "test",
                None,
            )
        )
    with pytest.raises(TaskError, match=r"cannot load gsm8k (.|\n)*--data\.path"):
        list(
            load_hub(
                "gsm8k", NamedSet(str(tmp_path / "absent"), gsm8k.splits, "numeric", gsm8k.to_record), "test", None
            )
        )


@pytest.mark.parametrize(
    ("name", "count"), [("gsm8k", 1319), ("math500", 500), ("aime24", 30), ("aime25", 30), ("amc23", 40)]
)
def test_local_copies(name, count):
    path = SHARED / ("gsm8k_test.jsonl" if name == "gsm8k" else f"{name}.jsonl")
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    assert len(load_tasks(TaskSpec(name, path=str(path)))) == count


def test_data_hash_sees_every_field():
    task = Task("a", ({"role": "user", "content": "1 2 =3"},), "3", "countdown", "2", {"numbers": [1, 2]})
    changes = ({"id": "b"}, {"prompt": ()}, {"reference": "4"}, {"verifier": "numeric"}, {"level": "3"}, {"meta": {}})
    hashes = {data_hash([replace(task, **change)]) for change in ({}, *changes)}
    assert len(hashes) == 1 + len(changes)


def test_data_hash_sees_content_and_order():
    tasks = TASKS["countdown"](TaskSpec("countdown", limit=3))
    assert len(data_hash(tasks)) == 64
    assert data_hash(tasks) == data_hash(TASKS["countdown"](TaskSpec("countdown", limit=3)))
    assert data_hash(tasks) != data_hash(tasks[::-1])
    assert data_hash(tasks) != data_hash(TASKS["countdown"](TaskSpec("countdown", limit=3, prompt="compact")))


def test_a_countdown_problem_is_asked_as_it_is_written(tmp_path):
    record = {"id": "a", "problem": "3 4 5 =12", "answer": 12, "numbers": [3, 4, 5], "verifier": "countdown"}
    task = load_tasks(TaskSpec(write(tmp_path / "own.jsonl", json.dumps(record))))[0]
    assert task.prompt == ({"role": "user", "content": "3 4 5 =12"},)


def test_broken_json_is_named_by_line_and_column(tmp_path):
    with pytest.raises(TaskError, match=r"own\.jsonl, line 2, column 7: not JSON: Expecting value$"):
        load_tasks(TaskSpec(write(tmp_path / "own.jsonl", '{"id": "a", "problem": "b", "answer": 1}\n{"id":}')))
