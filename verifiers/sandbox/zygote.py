"""The process that programs are forked from: a small warm interpreter that never sees a program, a test or an answer.

It takes one order at a time over a socket: make a box, make a process for tests, kill a process. It tells when one has
ended. What is in its memory every program can read, so nothing may be. A page that it touches after a fork is copied,
so it does as little as possible.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from verifiers.sandbox import box, guest, judge, linux, root
from verifiers.sandbox.tier import Tier

TESTS = b"T"
"""An order: with one descriptor. Others are those of boxes, with four. A process id without any is to be killed."""
STARTED, ENDED, FAILED = b"S", b"E", b"F"
NUMBER = 8
"""Bytes. A reply: what; which process; its exit status, or the error number."""
REPLY = 1 + 2 * NUMBER
_TESTS_MEMORY = 1 << 30
_SETUP_FAILED = 125
_TICK_MS = 20
_HAS_PIDFD = hasattr(os, "pidfd_open")
_ANCILLARY = socket.CMSG_SPACE(4 * 8)


def main(control: int, tier: str, user: int | None) -> NoReturn:
    """Serve until the other side closes the socket. As root, be `user` from early on."""
    _reset_signals()
    connection = socket.socket(fileno=control)
    zygote = _Zygote(connection, _prepare(Tier(tier), user))
    guest.warm_up()
    gc.collect()
    gc.disable()
    gc.freeze()
    zygote.say(STARTED)
    zygote.serve()
    os._exit(0)


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _prepare(tier: Tier, user: int | None) -> box.Kind:
    if tier is Tier.FULL:
        if user is None:
            mine = os.geteuid(), os.getegid()
            linux.unshare(linux.CLONE_NEWUSER | linux.WORKER_NAMESPACES)
            box.map_same_user(*mine)
        else:
            linux.unshare(linux.WORKER_NAMESPACES)
        root.build()
    if user is not None:
        python = root.hold_python()
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        root.reach_python(python)
    if linux.SUPPORTED:
        linux.set_dumpable(True)  # changing the user has switched it off, and with it writing to /proc/self
        linux.die_with_parent()
        if tier is not Tier.FULL:
            linux.adopt_orphans()
    return box.Kind(tier)


class _Zygote:
    def __init__(self, connection: socket.socket, kind: box.Kind) -> None:
        self._connection = connection
        self._kind = kind
        self._order = b""
        self._plan: box.Plan | None = None
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._children: dict[int, int] = {}  # process to its pidfd, or -1 where there are none

    def serve(self) -> None:
        """Kept flat: each object that is used here lies on some page."""
        control, children = self._connection.fileno(), self._children
        poll, receive = self._poll.poll, self._connection.recvmsg
        patience = None if _HAS_PIDFD else _TICK_MS
        while True:
            ready = poll(patience)
            for fd, _ in ready:
                if fd == control:
                    data, ancillary, _, _ = receive(4096, _ANCILLARY)
                    if not data:
                        for pid in tuple(children):
                            self._kill(pid)
                        return
                    if ancillary:
                        self._start(data, list(memoryview(ancillary[0][2]).cast("i")))
                    else:
                        self._kill(int.from_bytes(data))
                else:
                    for pid, own in tuple(children.items()):
                        if own == fd:
                            self._collect(pid, 0)
            if not ready:
                for pid in tuple(children):
                    self._collect(pid, os.WNOHANG)

    def say(self, what: bytes, process: int = 0, status: int = 0) -> None:
        with suppress(BrokenPipeError):
            self._connection.send(what + process.to_bytes(NUMBER) + status.to_bytes(NUMBER))

    def _start(self, order: bytes, descriptors: list[int]) -> None:
        try:
            pid = self._judge(descriptors[0]) if order == TESTS else self._box(order, descriptors)
        except OSError as error:
            self.say(FAILED, status=error.errno or 0)
            return
        finally:
            for fd in descriptors:
                os.close(fd)
        self._children[pid] = -1
        if _HAS_PIDFD:
            fd = self._children[pid] = os.pidfd_open(pid)
            self._poll.register(fd, select.POLLIN)
        self.say(STARTED, pid)

    def _kill(self, pid: int) -> None:
        if pid in self._children:
            if self._kind.tier is Tier.PROCESS:
                _end_group(pid)
            with suppress(OSError):  # it may have ended just now
                os.kill(pid, signal.SIGKILL)
            self._collect(pid, 0)

    def _collect(self, pid: int, options: int) -> None:
        ended, status = os.waitpid(pid, options)
        if not ended:
            return
        fd = self._children.pop(pid)
        if fd >= 0:
            self._poll.unregister(fd)
            os.close(fd)
        if self._kind.tier is not Tier.FULL:
            self._end_orphans(pid)
        code = os.waitstatus_to_exitcode(status)
        self.say(ENDED, pid, code if code >= 0 else 128 - code)

    def _end_orphans(self, group: int) -> None:
        """What a program left behind has become ours, for want of a process namespace that would have ended it."""
        _end_group(group)
        while orphans := _children_of(os.getpid()) - set(self._children):
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _box(self, order: bytes, descriptors: list[int]) -> int:
        if order != self._order:  # it is mostly the same for all programs
            self._plan = self._kind.prepare(box.Order.unpack(order))
            self._order = order
        pid = linux.clone_into_namespaces() if self._kind.tier is Tier.FULL else os.fork()
        return pid or _never(descriptors[box.CONTROL], lambda: self._live(descriptors))

    def _live(self, descriptors: list[int]) -> int:
        """The life of a box's first process: in namespaces of its own it only waits for the program's."""
        if self._kind.tier is Tier.FULL:
            linux.die_with_parent()
            self._kind.map_user()
            child = os.fork()
            if child:
                return box.wait_for(child)
        assert self._plan is not None
        os.setsid()
        return guest.serve(box.CONTROL, self._kind.enter(self._plan, descriptors))

    def _judge(self, fd: int) -> int:
        return os.fork() or _never(fd, lambda: self._live_as_judge(fd))

    def _live_as_judge(self, fd: int) -> int:
        if linux.SUPPORTED:
            linux.die_with_parent()
        self._kind.enter_for_tests(fd, _TESTS_MEMORY)
        judge.serve(box.CONTROL)
        return 0


def _never(fd: int, live: Callable[[], int]) -> NoReturn:
    """The life of a child; it never returns into the zygote's code."""
    status = _SETUP_FAILED
    try:
        status = live()
    except Exception as error:  # noqa: BLE001 - told to the other side; this child ends
        box.fail(fd, error)
    finally:
        os._exit(status)


def _end_group(number: int) -> None:
    with suppress(OSError):  # there may be none: a process for tests leads no group
        os.killpg(number, signal.SIGKILL)


def _children_of(pid: int) -> set[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return {int(number) for number in file.read().split()}
    except OSError:
        return set()
