"""Runs a side of a benchmark in a process of its own, with a time limit, and keeps what it measured until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

MARK = "CELL "
"""What a line with a measurement begins with."""


def report(cell: dict[str, Any]) -> None:
    """Hand a measurement to the process that waits for it."""
    print(MARK + json.dumps(cell), flush=True)


def run_cells(
    name: str, arguments: Sequence[str], limit_s: float, describe: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """The cells that `python -m ARGUMENTS` reports within its limit; what it prints besides is passed on at once.

    A last cell with an `error` says that it failed or was ended.
    """
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}
    print(f"== {name}, at most {limit_s:.0f} s", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    cells: list[dict[str, Any]] = []
    reader = threading.Thread(target=_read, args=(process, cells, describe), daemon=True)
    reader.start()
    try:
        code: int | None = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    reader.join(10)
    if code != 0:
        cells.append({"side": name, "error": f"longer than {limit_s:.0f} s" if code is None else f"exit code {code}"})
        print(f"== {name} failed: {cells[-1]['error']}", flush=True)
    return cells


def _read(
    process: subprocess.Popen[str], cells: list[dict[str, Any]], describe: Callable[[dict[str, Any]], str]
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(MARK):
            cells.append(json.loads(line.removeprefix(MARK)))
            print("   " + describe(cells[-1]), flush=True)
        elif line.strip():
            print("   | " + line.rstrip(), flush=True)
