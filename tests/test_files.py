"""Files that survive being cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.files import (
    JsonLinesWriter,
    StoredDataError,
    read_as,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
)

RECORDS = [{"n": number, "text": "ä\n" * number} for number in range(6)]
LINES = b"".join((json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n").encode() for r in RECORDS)


@pytest.mark.parametrize("text", ["", 'a ,"long": b', '\\",\\"long\\":', '"}'])
def test_what_is_not_needed_is_not_parsed(tmp_path, text):
    path = tmp_path / "log.jsonl"
    write_json_lines(path, [{"n": 1, "said": text, "long": [1, 2], "more": {"n": 2}}, {"n": 2}])
    assert list(read_json_lines(path, before="long")) == [{"n": 1, "said": text}, {"n": 2}]
    path.write_text('{"n": 1, "said": "x", "long": [1]}\n')  # not written here: read as it is
    assert list(read_json_lines(path, before="long")) == [{"n": 1, "said": "x", "long": [1]}]
    path.write_text('{"n":1,"long":[1,\n{"n":2}\n')
    with pytest.raises(StoredDataError, match="line 1"):
        list(read_json_lines(path, before="long"))


@given(cut=st.integers(0, len(LINES)), padding=st.sampled_from([0, 70_000]))
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_goes_on(tmp_path_factory, cut, padding):
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    # The padding makes the torn line longer than the block in which the end of the last whole line is looked for.
    torn = LINES[:cut] + b'"' * padding
    path.write_bytes(torn)
    whole = RECORDS[: LINES[:cut].count(b"\n")]
    assert list(read_json_lines(path)) == whole
    with JsonLinesWriter(path) as writer:
        writer.append({"n": "new"})
    assert list(read_json_lines(path)) == [*whole, {"n": "new"}]


def test_a_record_is_in_the_file_when_append_returns(tmp_path):
    writer = JsonLinesWriter(tmp_path / "log.jsonl")
    writer.append(RECORDS[1])
    assert list(read_json_lines(tmp_path / "log.jsonl")) == [RECORDS[1]]
    writer.close()


@pytest.mark.parametrize("broken", [b"{oops\n", b"3\n", b"\n"])
def test_a_whole_line_that_is_no_object_is_an_error_with_its_number(tmp_path, broken):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n' + broken + b'{"a":2}\n')
    with pytest.raises(StoredDataError, match="line 2: not a JSON object"):
        list(read_json_lines(path))


@pytest.mark.parametrize("broken", ["{}", '{"n":"x"}', '{"n":null}', '{"n":[]}'])
def test_a_record_of_another_kind_is_an_error_with_its_number(tmp_path, broken):
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"n":1}}\n{broken}\n')
    with pytest.raises(StoredDataError, match="line 2: not a record of this file"):
        list(read_as(path, lambda record: int(record["n"])))


@pytest.mark.parametrize("broken", ["", "{", "[]", "3"])
def test_a_file_that_holds_no_object_is_an_error_with_its_name(tmp_path, broken):
    path = tmp_path / "value.json"
    path.write_text(broken)
    with pytest.raises(StoredDataError, match=r"value\.json: not a JSON object"):
        read_json(path)


def test_a_file_that_is_not_there_has_no_records(tmp_path):
    assert list(read_json_lines(tmp_path / "gone.jsonl")) == []


def test_replacing_keeps_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    write_json_lines(path, RECORDS)
    assert list(read_json_lines(path)) == RECORDS
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["value.json"]
