"""Every rollout of a run as Parquet, a file a generation: `pandas.read_parquet("runs/x/rollouts")` reads them all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.rollouts import Rollout

if TYPE_CHECKING:
    import pyarrow as pa


def write_rollouts(
    folder: Path, generation: int, rollouts: Sequence[Rollout], rewards: Sequence[float], advantages: Sequence[float]
) -> Path:
    """Write one generation, replacing what an interrupted attempt at it left. Rewards that are NaN become null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        _line(generation, rollout, reward, advantage)
        for rollout, reward, advantage in zip(rollouts, rewards, advantages, strict=True)
    ]
    # Not guessed from the values: a file with nulls alone in a column could not be read together with the others.
    table = pa.Table.from_pylist(lines, _schema())
    path = folder / f"{generation:06d}.parquet"
    unfinished = path.with_name(f".{path.name}.tmp")  # readers of the folder pass over hidden files
    pq.write_table(table, unfinished, compression="zstd")
    os.replace(unfinished, path)
    return path


def read_texts(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """The completions of every stored generation, in order."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        yield int(path.stem), pq.read_table(path, columns=["text"]).column("text").to_pylist()


def _schema() -> pa.Schema:
    import pyarrow as pa

    number, text, flag, ids = pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.int64())
    return pa.schema(
        {
            "generation": number,
            "task_id": text,
            "sample": number,
            "reward": pa.float64(),
            "advantage": pa.float64(),
            "status": text,
            "extracted": text,
            "finish_reason": text,
            "bound": flag,
            "truncated": flag,
            "thinking_tokens": number,
            "answer_tokens": number,
            "text": text,
            "answer_text": text,
            "prompt_ids": ids,
            "completion_ids": ids,
        }
    )


def _line(generation: int, rollout: Rollout, reward: float, advantage: float) -> dict[str, Any]:
    made = rollout.generation
    return {
        "generation": generation,
        "task_id": made.key.task_id,
        "sample": made.key.sample,
        "reward": None if reward != reward else float(reward),
        "advantage": float(advantage),
        "status": rollout.verdict.status.value,
        "extracted": rollout.verdict.extracted,
        "finish_reason": made.finish_reason.value,
        "bound": made.bound,
        "truncated": rollout.truncated,
        "thinking_tokens": made.thinking_tokens,
        "answer_tokens": made.answer_tokens,
        "text": made.text,
        "answer_text": made.answer_text,
        "prompt_ids": list(made.prompt_ids),
        "completion_ids": list(made.completion_ids),
    }
