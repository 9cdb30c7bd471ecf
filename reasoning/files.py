"""Files that survive being killed: append-only JSON lines, and JSON that is replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

Record = TypeVar("Record")


class StoredDataError(ValueError):
    """What is stored cannot be read; the message names the file and the line."""


class JsonLinesWriter:
    """Appends records to a file. A record is with the operating system once `append` returns.

    A last line that an earlier writer did not finish is cut off first: it was never a record.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        os.ftruncate(self._descriptor, _whole_lines(path))

    def append(self, record: Mapping[str, Any]) -> None:
        rest = memoryview(_line(record))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_json_lines(path: Path, *, before: str | None = None) -> Iterator[dict[str, Any]]:
    """The records of a file, one at a time; none when it does not exist. An unfinished last line is left out.

    `before` names a field of which, and of all behind it, nothing is needed: in lines that were written here they are
    not even parsed. The long fields of traces.jsonl come last for that.

    Raises:
        StoredDataError: a whole line is not a JSON object.
    """
    if not path.exists():
        return
    # Within a text the quotes would be escaped, so this is never found in one.
    needless = f',"{before}":'.encode()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            end = line.find(needless) if before and line.endswith(b"}\n") else -1
            try:
                record = json.loads(line if end < 0 else line[:end] + b"}")
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise StoredDataError(f"{path}, line {number}: not a JSON object; remove the line and run again")
            yield record


def read_as(path: Path, make: Callable[[dict[str, Any]], Record], *, before: str | None = None) -> Iterator[Record]:
    """What `make` makes of each record of a file, as `read_json_lines` reads them.

    Raises:
        StoredDataError: a whole line is not a JSON object, or not one that `make` can use.
    """
    for number, record in enumerate(read_json_lines(path, before=before), start=1):
        try:
            made = make(record)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise StoredDataError(
                f"{path}, line {number}: not a record of this file ({why}); remove the line and run again"
            ) from None
        yield made


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file of JSON lines as a whole."""
    _replace(path, b"".join(map(_line, records)))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file as a whole: a reader sees the old or the new one, never a part."""
    _replace(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        StoredDataError: there is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StoredDataError(f"{path}: not a JSON object; it was damaged after it was written")
    return value


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole."""
    _replace(path, text.encode())


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _whole_lines(path: Path, block: int = 1 << 16) -> int:
    """Bytes up to and including the last end of line."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0
