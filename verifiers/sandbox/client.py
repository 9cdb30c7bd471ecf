"""The worker's side of a zygote: starts it, orders boxes, hears of their ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from verifiers.sandbox.memory import Group
from verifiers.sandbox.types import Tier
from verifiers.sandbox.zygote import ENDED, FAILED, NUMBER, REPLY, STARTED

START_DEADLINE_S = 60.0
_ANSWER_DEADLINE_S = 30.0
_KEEPS_MESSAGES_APART = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
"""One order to a zygote may follow another that it has not read yet: to end a process that has just ended by itself."""
_ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "2",  # each arena reserves 64 MB of a thread's address space
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # programs that fill their memory do so in a third of the time
}
_FOLDER = str(Path(__file__).resolve().parent)


class SandboxError(Exception):
    """The machinery failed: this says nothing about a program."""


def command(call: str) -> list[str]:
    """A new interpreter with this package in it and nothing else: no site-packages, none of the user's settings."""
    lines = (
        "import os, sys, types",
        "os.umask(0o022)",
        f"for name, path in (('verifiers', {os.path.dirname(_FOLDER)!r}), ('verifiers.sandbox', {_FOLDER!r})):",
        "    sys.modules[name] = types.ModuleType(name)",
        "    sys.modules[name].__path__ = [path]",
        call,
    )
    return [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "utf8", "-c", "\n".join(lines)]


class Zygote:
    """A zygote process. Used by one thread."""

    def __init__(self, tier: Tier, user: int | None, group: Group | None) -> None:
        self.tier = tier
        self.user = user
        self.connection, theirs = socket.socketpair(type=_KEEPS_MESSAGES_APART)
        arguments = f"{theirs.fileno()}, {tier.value!r}, {user!r}"
        self._process = subprocess.Popen(
            command(f"from verifiers.sandbox.zygote import main; main({arguments})"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=_ENVIRONMENT,
            cwd="/",
        )
        theirs.close()
        self._ended: dict[int, int] = {}
        try:
            if group is not None:
                group.add(self._process.pid)
            self._next(START_DEADLINE_S)
        except BaseException:
            self.close()
            raise

    def order(self, what: bytes, descriptors: list[int]) -> int:
        """Have a process made. Its id."""
        socket.send_fds(self.connection, [what], descriptors)
        kind = b""
        while kind != STARTED:
            kind, pid = self._next(_ANSWER_DEADLINE_S)
        return pid

    def status_of(self, pid: int) -> int | None:
        """The exit status if it is known to have ended: 128 and the number of the signal that ended it."""
        return self._ended.pop(pid, None)

    def hear(self) -> None:
        """Take in what the zygote has to say, when its connection is readable."""
        self._next(0.0)

    def kill(self, pid: int) -> int:
        """End a process and all that are in its box. Its exit status."""
        if pid not in self._ended:
            self.connection.sendall(pid.to_bytes(NUMBER))
        deadline = time.monotonic() + _ANSWER_DEADLINE_S
        while pid not in self._ended:
            self._next(max(0.0, deadline - time.monotonic()))
        return self._ended.pop(pid)

    def close(self) -> None:
        """End it and all that it started, which it does by itself when the connection closes."""
        self.connection.close()
        try:
            self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _next(self, patience: float) -> tuple[bytes, int]:
        """What the next message says, and of which process; an end is noted, too."""
        reply = self._read(REPLY, patience)
        kind, process, status = reply[:1], int.from_bytes(reply[1 : 1 + NUMBER]), int.from_bytes(reply[1 + NUMBER :])
        if kind == FAILED:
            raise SandboxError(f"no process could be made: {os.strerror(status)}")
        if kind == ENDED:
            self._ended[process] = status
        return kind, process

    def _read(self, size: int, patience: float) -> bytes:
        data = b""
        while len(data) < size:
            self.connection.settimeout(max(patience, 0.001))
            try:
                part = self.connection.recv(size - len(data))
            except TimeoutError:
                raise SandboxError("the zygote does not answer") from None
            if not part:
                raise SandboxError(f"the zygote has ended: {self._last_words()}")
            data += part
        return data

    def _last_words(self) -> str:
        self._process.kill()
        assert self._process.stderr is not None
        lines = self._process.stderr.read(1 << 16).decode(errors="replace").splitlines()
        return lines[-1] if lines else f"exit status {self._process.wait()}"
