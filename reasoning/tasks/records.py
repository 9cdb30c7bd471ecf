"""Tasks from a user's own file: JSONL, CSV or Parquet.

The fields are `id`, `problem`, `answer`, and optionally `verifier` and `level`. A `countdown` record also needs
`numbers`, a list. A record with `tests` is a code task, which `reasoning.tasks.code` describes: it needs no `answer`.
Every complaint names the file and the line, or the row of a Parquet file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from reasoning.tasks.base import TaskError
from reasoning.tasks.code import ANSWER_FORM, REFERENCE, code_meta
from reasoning.types import Task
from verifiers import VERIFIERS

Record = Mapping[str, Any]
Placed = tuple[str, Record]
"""A record with the place it came from, such as `problems.jsonl, line 3`."""

BOXED = "Put your final answer within \\boxed{}."
_ANSWER_FORM = {"math": f"\n\n{BOXED}", "numeric": f"\n\n{BOXED}"}
"""What a prompt says behind the problem, by verifier. Countdown problems say themselves what they want."""
_META = {"countdown": ("numbers",)}


def read_records(path: Path) -> Iterator[Placed]:
    """The records of a file, by its suffix; nothing is known of their fields yet."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise TaskError(f"{path}: cannot read '{path.suffix}' files; write {', '.join(READERS)}")
    if not path.is_file():
        raise TaskError(f"{path}: there is no such file")
    yield from reader(path)


def to_tasks(records: Iterable[Placed], source: str, verifier: str) -> list[Task]:
    """Checked tasks, in order. `verifier` grades the records that name none; `source` names the file in messages."""
    check_verifier(verifier, source)
    tasks: list[Task] = []
    places: dict[str, str] = {}
    for place, record in records:
        task = _to_task(place, record, verifier)
        if task.id in places:
            raise TaskError(f"{place}: the id '{task.id}' is already taken by {places[task.id]}; ids must be unique")
        places[task.id] = place
        tasks.append(task)
    if not tasks:
        raise TaskError(f"{source}: has no records; each needs id, problem and answer")
    return tasks


def check_verifier(name: str, place: str) -> None:
    if name not in VERIFIERS:
        near = get_close_matches(name, VERIFIERS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"write {', '.join(VERIFIERS)}"
        raise TaskError(f"{place}: unknown verifier '{name}'; {hint}")


def _to_task(place: str, record: Record, verifier: str) -> Task:
    default = verifier if record.get("tests") is None else "code"
    name = _text(place, record, "verifier") if record.get("verifier") else default
    check_verifier(name, place)
    missing = [field for field in _META.get(name, ()) if not isinstance(record.get(field), list)]
    if missing:
        raise TaskError(f"{place}: the verifier '{name}' needs the list '{missing[0]}'")
    if name == "code":
        meta, reference = code_meta(place, record), REFERENCE
        form = ANSWER_FORM[meta["tests"]["type"]]
    else:
        meta, reference = {field: record[field] for field in _META.get(name, ())}, _text(place, record, "answer")
        form = _ANSWER_FORM.get(name, "")
    return Task(
        id=_text(place, record, "id"),
        prompt=({"role": "user", "content": _text(place, record, "problem") + form},),
        reference=reference,
        verifier=name,
        level=_text(place, record, "level") if record.get("level") is not None else None,
        meta=meta,
    )


def _text(place: str, record: Record, field: str) -> str:
    """A field that must hold text or a number, as text."""
    value = record.get(field)
    if value is None:
        found = ", ".join(map(str, record)) or "none"
        raise TaskError(f"{place}: the field '{field}' is missing; the fields found are {found}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TaskError(f"{place}: the field '{field}' must be text or a number, not {type(value).__name__}")
    text = str(value).strip()
    if not text:
        raise TaskError(f"{place}: the field '{field}' is empty")
    return text


def _read_jsonl(path: Path) -> Iterator[Placed]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            place = f"{path}, line {number}"
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise TaskError(f"{place}: not UTF-8 text: {error.reason} at byte {error.start}") from None
            except json.JSONDecodeError as error:
                raise TaskError(f"{place}, column {error.colno}: not JSON: {error.msg}") from None
            except RecursionError:
                raise TaskError(f"{place}: not JSON that anybody wrote: it is nested too deeply") from None
            if not isinstance(record, dict):
                raise TaskError(f"{place}: a JSON object was expected, not {type(record).__name__}")
            yield place, record


def _read_csv(path: Path) -> Iterator[Placed]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        try:
            for row in rows:
                place = f"{path}, line {rows.line_num}"
                if None in row:
                    raise TaskError(f"{place}: more columns than the first line; quote fields that hold commas")
                yield place, {field: value or None for field, value in row.items()}
        except csv.Error as error:
            raise TaskError(f"{path}, line {rows.reader.line_num}: not CSV: {error}") from None
        except UnicodeDecodeError as error:
            raise TaskError(f"{path}, after line {rows.line_num}: not UTF-8 text: {error.reason}") from None


def _read_parquet(path: Path) -> Iterator[Placed]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise TaskError(f"{path}: not a Parquet file: {error}") from None
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


READERS: dict[str, Callable[[Path], Iterator[Placed]]] = {
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
