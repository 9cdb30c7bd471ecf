"""The parent's side of a worker process: starts it, hands it jobs, waits for the answers."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from verifiers.sandbox.client import START_DEADLINE_S, command
from verifiers.sandbox.tier import Tier

GIVES_WAY = b"gives way"
"""A line that a worker may say before its answer."""
_FIRST_USER, _USERS = 64000, 1000
_LONGEST_S = 2e6
_numbers = itertools.count()


class WorkerFailed(Exception):
    """A worker could not start, or has ended."""


class WorkerHangs(WorkerFailed):
    """It does not answer. What it was given would make another hang, too."""


class WorkerProcess:
    """The parent's side of one worker process. Used by one thread at a time, but for `close`."""

    def __init__(self, tier: Tier) -> None:
        call = f"from verifiers.sandbox.worker import main; main({tier.value!r}, {next_user()!r}, {os.getpid()})"
        self._process = subprocess.Popen(
            command(call),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the parent to handle
        )
        self._data = b""

    def wait_until_ready(self) -> None:
        answer = self._read(2 * START_DEADLINE_S, lambda: None)
        if "error" in answer:
            raise WorkerFailed(answer["error"])

    def ask(self, job: str, patience: float, gives_way: Callable[[], None]) -> dict[str, Any]:
        """The answer. Calls `gives_way` when nobody need wait for the program any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed("a worker has ended") from None
        return self._read(patience, gives_way)

    def _read(self, patience: float, gives_way: Callable[[], None]) -> dict[str, Any]:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + min(patience, _LONGEST_S)
        parts: list[bytes] = []
        while True:
            if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                raise WorkerHangs("a worker does not answer")
            data = os.read(fd, 1 << 16)
            if not data:
                raise WorkerFailed("a worker has ended")
            parts.append(data)
            if data.endswith(b"\n"):
                *notes, last = b"".join(parts).splitlines()
                if notes or last == GIVES_WAY:
                    gives_way()
                if last != GIVES_WAY:
                    return json.loads(last)
                parts.clear()

    def dismiss(self) -> None:
        """Let it end when it is idle, after its zygote."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self, patience: float = 2.0) -> None:
        """End it, at once when it does not leave by itself."""
        self.dismiss()
        try:
            self._process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def start_workers(count: int, tier: Tier) -> list[WorkerProcess]:
    workers = [WorkerProcess(tier) for _ in range(count)]
    try:
        for worker in workers:
            worker.wait_until_ready()
    except BaseException:
        for worker in workers:
            worker.close()
        raise
    return workers


def next_user() -> int | None:
    """A user without rights for the programs of one worker, if this process is root and may choose."""
    if os.geteuid() != 0:
        return None
    user = _FIRST_USER + (os.getpid() * 61 + next(_numbers)) % _USERS
    try:
        with open("/proc/self/uid_map") as file:
            ranges = [list(map(int, line.split())) for line in file]
    except OSError:
        return user
    return user if any(first <= user < first + length for first, _, length in ranges) else None
