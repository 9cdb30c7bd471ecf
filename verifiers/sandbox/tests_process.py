"""The worker's side of a process that runs test code."""

from __future__ import annotations

import select
import socket
from typing import Any

from verifiers.sandbox import wire
from verifiers.sandbox.client import SandboxError, Zygote
from verifiers.sandbox.running import Box
from verifiers.sandbox.zygote import TESTS


class TestsProcess:
    """A process that runs test code."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._channel, theirs = socket.socketpair()
        try:
            self._pid = zygote.order(TESTS, [theirs.fileno()])
        finally:
            theirs.close()
        self.ended = False
        self.uses = 0

    def start(self, code: str, box: Box, *, fail_fast: bool) -> int:
        """Run this code against a box's program. A descriptor that becomes readable when it is done."""
        self.uses += 1
        data = wire.frame({"code": code, "fail_fast": fail_fast})
        sent = socket.send_fds(self._channel, [data], [box.give_channel()])
        self._channel.sendall(data[sent:])
        box.channel.close()  # so that the tests hear of the program's end
        return self._channel.fileno()

    def result(self, patience: float) -> dict[str, Any] | None:
        """What came of it, or None if it takes longer."""
        if not select.select([self._channel], [], [], patience)[0]:
            return None
        try:
            return wire.Channel(self._channel.fileno()).receive()
        except (EOFError, OSError):
            raise SandboxError("the process that ran the tests has ended") from None

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self._zygote.kill(self._pid)
            self._channel.close()
