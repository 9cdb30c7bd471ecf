"""One box from outside: its channel, its output, its time and its memory, until it is ended."""

from __future__ import annotations

import os
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from verifiers.sandbox import wire
from verifiers.sandbox.box import Order
from verifiers.sandbox.capture import Capture
from verifiers.sandbox.client import SandboxError, Zygote
from verifiers.sandbox.deadline import Deadline
from verifiers.sandbox.look import Look
from verifiers.sandbox.memory import Group
from verifiers.sandbox.types import Limits, Outcome, Tier

SETUP_DEADLINE_S = 30.0
_GRACE_S = 1.0
_SIGKILL, _SIGSYS, _SIGXCPU = 128 + 9, 128 + 31, 128 + 24


class Stopped(Exception):
    """The program has come to an end, or had to be stopped."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class Box:
    """A program's box. Use as a context: at the end everything in it is ended, and what it left is removed.

    `patience_s` and `gives_way` are those of its `Look`. `floods` tells whether more output than allowed ends the
    program or is thrown away. `starved`: it ran out of time, for more than a tenth of which it waited for a processor.
    """

    def __init__(
        self,
        zygote: Zygote,
        group: Group | None,
        limits: Limits,
        stdin: bytes,
        patience_s: float | None,
        gives_way: Callable[[], None],
        *,
        floods: bool,
    ) -> None:
        self._zygote, self._group, self._floods = zygote, group, floods
        self._timeout_s = limits.timeout_s
        self.folder = _make_folder(zygote) if zygote.tier is not Tier.FULL else ""
        self.stdout, self.stderr = (Capture(limits.output_kb << 10) for _ in range(2))
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        self._frames = wire.Frames()
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._watch(zygote.connection.fileno(), self._hear)
        self._status: int | None = None
        self.lacked_memory = self.starved = False
        source = _file_of(stdin)
        try:
            if zygote.user is not None:  # so that a program may open them again, by /dev/stdin and the like
                for fd in (self.stdout.writer, self.stderr.writer):
                    os.fchown(fd, zygote.user, zygote.user)
            order = _order(limits, self.folder, zygote.tier)
            if group is not None:
                group.limit(order.memory, order.files)
            descriptors = [source, self.stdout.writer, self.stderr.writer, theirs.fileno()]
            self.pid = zygote.order(order.pack(), descriptors)
            self._look = Look(self.pid, zygote.tier, order.memory, patience_s, gives_way)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(source)
            theirs.close()
            self.stdout.close_writer()
            self.stderr.close_writer()
        for capture in (self.stdout, self.stderr):
            self._watch(capture.reader, lambda capture=capture: self._drain(capture))

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        finally:
            self._close()

    @property
    def needed_s(self) -> float:
        """The most processor time that a test was seen to take."""
        return self._look.needed_s

    def start(self, job: dict[str, Any]) -> None:
        """Wait until the box stands, and hand over the job. From here on nothing is trusted that it says."""
        self._watch(self.channel.fileno(), lambda: None)
        try:
            message = self.receive(Deadline(SETUP_DEADLINE_S))
        except Stopped as stop:
            raise SandboxError(f"the box could not be made: {stop.detail}") from None
        if "ready" not in message:
            raise SandboxError(f"the box could not be made: {message.get('setup')}")
        self.channel.settimeout(SETUP_DEADLINE_S)
        self.channel.sendall(wire.frame({**job, "timeout_s": self._timeout_s}))
        self.channel.setblocking(False)

    def give_channel(self) -> int:
        """The descriptor of the channel for a process that goes on with it. This side stops reading it."""
        self._forget(self.channel.fileno())
        self.channel.setblocking(True)
        return self.channel.fileno()

    def ask(self, message: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        data = memoryview(wire.frame(message))
        fd = self.channel.fileno()
        while data:
            try:
                data = data[self.channel.send(data) :]
            except BlockingIOError:
                self._poll.modify(fd, select.POLLOUT)
                try:
                    self._pump(deadline)
                finally:
                    self._poll.modify(fd, select.POLLIN)
            except OSError:
                raise self.why_it_ended() from None
        return self.receive(deadline)

    def receive(self, deadline: Deadline) -> dict[str, Any]:
        """The next message. Raises Stopped."""
        while True:
            try:
                message = self._frames.next()
                if message is not None:
                    return message
                data = self.channel.recv(1 << 16)
            except BlockingIOError:
                self._pump(deadline)
                continue
            except ValueError as error:
                raise Stopped(Outcome.FAIL, str(error)) from None
            except OSError:
                data = b""
            if not data:
                raise self.why_it_ended()
            self._frames.feed(data)

    def wait_for(self, fd: int, deadline: Deadline) -> None:
        """Until another descriptor is readable. Raises Stopped, but not because the program has ended."""
        self._watch(fd, lambda: None)
        try:
            while fd not in self._pump(deadline):
                pass
        finally:
            self._forget(fd)

    def wait_for_end(self, deadline: Deadline) -> int:
        """The exit status of the program. Raises Stopped."""
        self._forget(self.channel.fileno())
        while self._status is None:
            self._pump(deadline)
        return self._status

    def end(self) -> int:
        """End everything in the box, and take what is left of its output."""
        if self._status is None:
            self._status = self._zygote.kill(self.pid)
        for capture in (self.stdout, self.stderr):
            capture.drain()
        self._ask_for_kills()
        return self._status

    def end_reason(self) -> Stopped:
        """Why the program's process has ended."""
        status = self._status if self._status is not None else self._zygote.kill(self.pid)
        self._status = status
        self._ask_for_kills()
        if status == _SIGKILL and self.lacked_memory:
            return Stopped(Outcome.MEMORY, "more memory than allowed")
        if status == _SIGSYS:
            return Stopped(Outcome.BLOCKED, "a system call that is not allowed ended the program")
        if status == _SIGXCPU:
            return Stopped(Outcome.TIMEOUT, "more processor time than allowed, or no hope to end in time")
        if status > 128:
            return Stopped(Outcome.CRASH, f"ended by signal {status - 128}")
        return Stopped(Outcome.CRASH, f"ended with exit status {status}")

    def why_it_ended(self) -> Stopped:
        """Why the program ends, which may take it a moment."""
        with suppress(Stopped):
            self._wait_a_little()
        return self.end_reason()

    def _wait_a_little(self) -> None:
        deadline = Deadline(_GRACE_S)
        self._forget(self.channel.fileno())
        while self._status is None:
            self._pump(deadline)

    def _pump(self, deadline: Deadline) -> set[int]:
        """Wait for something to happen, and take it in. The descriptors to which it did."""
        now = time.monotonic()
        until = deadline.next(now)
        if until <= now and deadline.is_over():
            raise self._late(deadline)
        if now >= self._look.next:
            too_much = self._look.takes_too_much(deadline)
            self._ask_for_kills()
            if too_much or self.lacked_memory:
                raise Stopped(Outcome.MEMORY, "more memory than allowed")
        until = min(until, self._look.next)
        happened = {fd for fd, _ in self._poll.poll(max(0.0, 1000 * (until - now)))}
        for fd in happened:
            self._handlers[fd]()
        return happened

    def _late(self, deadline: Deadline) -> Stopped:
        lacked = deadline.lacked()
        if lacked is None:
            return Stopped(Outcome.TIMEOUT, "the time was up")
        self.starved = True
        return Stopped(Outcome.TIMEOUT, f"the time was up, of which it waited {lacked:.1f} s for a processor")

    def _ask_for_kills(self) -> None:
        if self._group is not None and self._group.has_killed():
            self.lacked_memory = True

    def _drain(self, capture: Capture) -> None:
        if not capture.drain():
            self._forget(capture.reader)
        if capture.too_much and capture is self.stdout and self._floods:
            raise Stopped(Outcome.OUTPUT_LIMIT, "more output than allowed")

    def _hear(self) -> None:
        self._zygote.hear()
        ended = self._zygote.status_of(self.pid)
        if ended is not None:  # what is heard later is of others
            self._status = ended

    def _watch(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _close(self) -> None:
        self.channel.close()
        self.stdout.close()
        self.stderr.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def _order(limits: Limits, folder: str, tier: Tier) -> Order:
    file = limits.fsize_mb << 20
    return Order(
        memory=limits.memory_mb << 20,
        processes=limits.pids + 1 if tier is Tier.FULL else limits.pids + _processes_of_user(),
        file=file,
        files=2 * file,
        cpu=int(limits.timeout_s * limits.pids) + 60,
        folder=folder,
    )


def _processes_of_user() -> int:
    """Without a namespace the limit counts all threads of the user. As many as there are now are free."""
    count = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.geteuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count or 1000


def _make_folder(zygote: Zygote) -> str:
    folder = tempfile.mkdtemp(prefix="reasoning-sandbox-")
    if zygote.user is not None:
        os.chown(folder, zygote.user, zygote.user)
    return folder


def _file_of(content: bytes) -> int:
    """A descriptor from which this can be read, and nothing else done."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            return os.dup(file.fileno())
    fd = os.memfd_create("stdin", os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        import fcntl

        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    finally:
        os.close(fd)
