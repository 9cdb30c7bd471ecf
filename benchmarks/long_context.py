"""How fast a model of any shape decodes at long contexts, and what its cache takes, with random weights.

    python -u -m benchmarks.long_context --json FILE                                  (one GPU: four shapes)
    python -u -m benchmarks.long_context --shapes pocket --contexts 256,1k,4k --batches 1,4   (CPU)
    python -m benchmarks.long_context --json FILE --draw FOLDER                         (figures of what FILE holds)

Each shape is a process of its own that writes a config.json, starts the engine with dummy weights, and measures every
context with every batch: prompts of random ids are prefilled for real, no two of them alike, then steps are timed in
which all requests decode and nothing else happens. Prompts of longer contexts go on where the shorter ones end, so that
a prefix may come from the cache, but none is shared between requests that run together. FILE is rewritten after every
cell. A cell that the cache cannot hold is recorded as `capacity`.

Times are medians of `STEPS` steps, each from the end of the one before, as `reasoning.eval --profile` takes them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.long_context_cells import Bench, Cell
from benchmarks.long_context_results import as_throughput, table
from benchmarks.long_context_shapes import SHAPES, write_model
from eval.throughput_plots import speed_by_position, step_times
from reasoning.budgets import parse_budget
from reasoning.cli import exit_with
from reasoning.config import ConfigError
from reasoning.engine.environment import prepare_environment
from reasoning.files import write_json

TIMEOUT_S = 300
DEFAULT_SHAPES = "8b,1.5b,sliding,135m"
DEFAULT_CONTEXTS = "1k,2k,5k,10k,20k,50k"


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shapes", default=DEFAULT_SHAPES, help=f"of {', '.join(SHAPES)}")
    options.add_argument("--contexts", default=DEFAULT_CONTEXTS)
    options.add_argument("--batches", default="1,16,64")
    options.add_argument("--json", type=Path, default=Path("long-context.json"))
    options.add_argument("--draw", type=Path, metavar="FOLDER", help="measure nothing: print and draw what FILE holds")
    options.add_argument("--one", help=argparse.SUPPRESS)  # the shape that this process measures
    given = options.parse_args(arguments)
    if given.draw is not None:
        return draw(json.loads(given.json.read_text()), given.draw)
    contexts = sorted({parse_budget(text) for text in given.contexts.split(",")})
    batches = sorted({int(text) for text in given.batches.split(",")})
    if given.one is not None:
        measure(given.one, contexts, batches, given.json)
        return 0
    names = given.shapes.split(",")
    if unknown := [name for name in names if name not in SHAPES]:
        raise ConfigError(f"no shape is called '{unknown[0]}'; write some of {', '.join(SHAPES)}")
    return sweep(names, arguments, given.json)


def sweep(names: Sequence[str], arguments: Sequence[str], out: Path) -> int:
    """Measure the shapes one after the other; what one of them dies of does not touch the others."""
    write_json(out, {"command": ["python", "-m", "benchmarks.long_context", *arguments], "shapes": {}})
    for name in names:
        started = time.monotonic()
        command = [sys.executable, "-u", "-m", "benchmarks.long_context", *arguments, "--json", str(out), "--one", name]
        try:
            failed = subprocess.run(command, timeout=TIMEOUT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            failed = f"no end after {TIMEOUT_S} s"
        say(name, f"{'ended' if failed == 0 else f'FAILED ({failed})'} after {time.monotonic() - started:.0f} s")
        _update(out, name, {"seconds": round(time.monotonic() - started, 1), "failed": failed or None})
    found = json.loads(out.read_text())
    show(found)
    return 1 if any(record["failed"] for record in found["shapes"].values()) else 0


def show(found: dict[str, Any]) -> None:
    for name, record in found["shapes"].items():
        print(f"\n{name}: {record.get('engine', {}).get('device')}, copy {record.get('copy_rate', 0) / 1e9:,.0f} GB/s")
        print("\n".join(table(record)))


def measure(name: str, contexts: Sequence[int], batches: Sequence[int], out: Path) -> None:
    """All cells of one shape, in this process."""
    prepare_environment()
    with tempfile.TemporaryDirectory() as folder:
        write_model(SHAPES[name], Path(folder))
        say(name, "starting the engine")
        started = time.monotonic()
        bench = Bench(folder, max(contexts), batches)
        record: dict[str, Any] = bench.describe() | {"cells": [], "first_token": []}
        record["start_s"] = round(time.monotonic() - started, 1)
        say(name, f"engine up after {record['start_s']} s, copy rate {record['copy_rate'] / 1e9:,.0f} GB/s")
        _update(out, name, record)
        for what, found in cells(bench, contexts, batches):
            record[what].append(found)
            _update(out, name, record)
            say(name, " ".join(f"{key}={_short(value)}" for key, value in found.items()))
        _update(out, name, bench.fit(record["cells"]))
        bench.close()


def draw(found: dict[str, Any], folder: Path) -> int:
    """The tables again, and speed by position and the time of a step: two figures a shape that has cells."""
    show(found)
    for name, record in found["shapes"].items():
        if not record.get("cells"):
            continue
        throughput = as_throughput(record)
        note = f"Shape {name}, random weights, all requests at one position."
        for figure in (
            speed_by_position(throughput, folder / f"long-context-{name}-speed", note=note),
            step_times(throughput, folder / f"long-context-{name}-steps", note=note),
        ):
            print("\n".join(map(str, figure[:1])))
    return 0


def cells(bench: Bench, contexts: Sequence[int], batches: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    for context in contexts:
        for batch in batches:
            try:
                if batch == 1:
                    yield "first_token", bench.first_token(context)
                yield "cells", bench.cell(context, batch)
            except Exception as error:  # noqa: BLE001 - one cell must not cost the others
                traceback.print_exc()
                yield "cells", Cell(context, batch, "failed", error=f"{type(error).__name__}: {error}").as_json()
        bench.clear()


def say(name: str, text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {name}: {text}", flush=True)


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _update(out: Path, name: str, changes: dict[str, Any]) -> None:
    """The file has one writer at a time: the process of the shape, and its parent when that has ended."""
    found = json.loads(out.read_text())
    found["shapes"].setdefault(name, {}).update(changes)
    write_json(out, found)


if __name__ == "__main__":
    exit_with(main)
