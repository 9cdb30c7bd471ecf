"""Named sets of problems with a final answer: where each lies on the hub, and how its rows become records.

The hub is reached only through `load_hub`, and only because the user named a set without giving a local file.
Ids are made from what identifies a problem in its source, so local copies and the hub give the same records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reasoning.tasks.base import TaskError
from reasoning.tasks.records import Placed, Record

Row = Mapping[str, Any]
ToRecord = Callable[[Row, int, str, str | None], Record]
"""(row, its number from 0, split, configuration) -> record."""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """`splits` maps our names of splits to the hub's; `configs` are concatenated."""

    hub: str
    splits: Mapping[str, str]
    verifier: str
    to_record: ToRecord
    configs: tuple[str | None, ...] = (None,)


def load_hub(name: str, named: NamedSet, split: str, revision: str | None) -> Iterator[Placed]:
    """The records of one split from the hub, or from the local cache of `datasets`."""
    import datasets

    if split not in named.splits:
        raise TaskError(f"{name} has no split '{split}'; write {' or '.join(named.splits)}")
    for config in named.configs:
        try:
            rows = datasets.load_dataset(named.hub, config, split=named.splits[split], revision=revision)
        except (OSError, ValueError) as error:
            raise TaskError(
                f"cannot load {name} from {named.hub}: {error}\n"
                "Check the network, or give a local file of id, problem and answer with --data.path"
            ) from error
        for number, row in enumerate(rows):
            yield _placed(name, named, f"{named.hub}, row {number}", row, number, split, config)


def from_rows(name: str, named: NamedSet, rows: Iterable[Placed], split: str) -> Iterator[Placed]:
    """The records of a local copy, which may hold the rows of the source or records already."""
    for number, (place, row) in enumerate(rows):
        yield (place, row) if "problem" in row else _placed(name, named, place, row, number, split, named.configs[0])


def _placed(name: str, named: NamedSet, place: str, row: Row, number: int, split: str, config: str | None) -> Placed:
    try:
        return place, named.to_record(row, number, split, config)
    except (KeyError, TypeError, ValueError) as error:
        raise TaskError(f"{place}: not the fields that were expected of {name}: {error!r}") from error


def _gsm8k(row: Row, number: int, split: str, config: str | None) -> Record:
    answer = row["answer"].rpartition("####")[2].strip().replace(",", "")
    return {"id": f"gsm8k-{split}-{number:05d}", "problem": row["question"], "answer": answer}


def _math500(row: Row, number: int, split: str, config: str | None) -> Record:
    source = row["unique_id"].removesuffix(".json").replace("/", "-")
    return {"id": f"math500-{source}", "problem": row["problem"], "answer": row["answer"], "level": row["level"]}


def _aime24(row: Row, number: int, split: str, config: str | None) -> Record:
    _, paper, problem = row["ID"].split("-")
    return {
        "id": f"aime24-{paper}-{problem}",
        "problem": row["Problem"],
        "answer": str(row["Answer"]),
        "level": int(problem),
    }


def _aime25(row: Row, number: int, split: str, config: str | None) -> Record:
    paper = str(config).rpartition("-")[2]
    return {
        "id": f"aime25-{paper}-{number + 1}",
        "problem": row["question"],
        "answer": str(row["answer"]),
        "level": number + 1,
    }


_AMC_PROBLEM = re.compile(r"AMC_(12[AB])\D+Problem_(\d+)")


def _amc23(row: Row, number: int, split: str, config: str | None) -> Record:
    [(paper, problem)] = _AMC_PROBLEM.findall(row["url"])
    return {
        "id": f"amc23-{paper}-{problem}",
        "problem": row["question"],
        "answer": str(row["answer"]).removesuffix(".0"),
        "level": int(problem),
    }


NAMED_SETS: dict[str, NamedSet] = {
    "gsm8k": NamedSet("openai/gsm8k", {"test": "test", "train": "train"}, "numeric", _gsm8k, ("main",)),
    "math500": NamedSet("HuggingFaceH4/MATH-500", {"test": "test"}, "math", _math500),
    "aime24": NamedSet("Maxwell-Jia/AIME_2024", {"test": "train"}, "math", _aime24),
    "aime25": NamedSet("opencompass/AIME2025", {"test": "test"}, "math", _aime25, ("AIME2025-I", "AIME2025-II")),
    "amc23": NamedSet("math-ai/amc23", {"test": "test"}, "math", _amc23),
}
