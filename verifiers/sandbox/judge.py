"""The tests' side of assert tests: runs test code, which is trusted, against a program in another process."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from verifiers.sandbox.assertions import SETTLE, Part, plan_tests
from verifiers.sandbox.connection import Connection, ProgramGone
from verifiers.sandbox.wire import frame, parse, read_exception

_RECURSION_LIMIT = sys.getrecursionlimit()
_DETAIL = 300
_GOES_ON = frame({"goes_on": True})
_TELL_AFTER_S = 0.05


def serve(fd: int) -> None:
    """Run tests as they come over `fd`, each with the descriptor of its program's channel, until it is closed."""
    control = socket.socket(fileno=fd)
    while True:
        received = _receive(control)
        if received is None:
            return
        job, channel = received
        result = run(job["code"], channel, lambda: control.sendall(_GOES_ON), fail_fast=job["fail_fast"])
        os.close(channel)
        control.sendall(frame(result))
        if random := sys.modules.get("random"):
            random.seed()
        sys.setrecursionlimit(_RECURSION_LIMIT)


def _receive(control: socket.socket) -> tuple[dict[str, Any], int] | None:
    data, ancillary, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(4))
    if not data:
        return None
    size = 4 + int.from_bytes(data[:4])
    while len(data) < size:
        data += control.recv(size - len(data))
    return parse(data[4:]), int.from_bytes(ancillary[0][2][:4], sys.byteorder)


def run(code: str, channel: int, goes_on: Callable[[], None], *, fail_fast: bool = False) -> dict[str, Any]:
    """What came of the tests: `tests`, a list of [outcome, seconds, detail], and `gone` if the program is.

    Calls `goes_on` after tests that took a while, for each has a deadline of its own.
    """
    try:
        plan = plan_tests(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        return {"invalid": f"{type(error).__name__}: {error}"}
    link = Connection(channel)
    tests: list[list[Any]] = [["not_run", 0.0, ""] for _ in plan.parts]
    try:
        hello = link.receive()
    except ProgramGone:
        tests[0][0] = "gone"
        return {"tests": tests, "gone": link.gone}
    loaded: Any = hello.get("loaded")
    if not isinstance(loaded, dict) or set(map(type, loaded.values())) - {str}:
        reason, text = read_exception(hello.get("error"))
        tests[0][:] = [reason, 0.0, text]
        return {"tests": tests, "gone": ""}
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    offered = set(loaded)
    names = _Namespace(link, loaded, plan.names_of(offered), plan.library_of(offered))
    for i, part in enumerate(plan.parts):
        started = time.perf_counter()
        outcome, detail, intact = _run_part(part, names, link)
        seconds = time.perf_counter() - started
        tests[i][:] = [outcome, seconds, detail[:_DETAIL]]
        if seconds > _TELL_AFTER_S:
            goes_on()
        if not intact or (fail_fast and outcome != "pass"):
            break
    return {"tests": tests, "gone": link.gone}


def _run_part(part: Part, names: _Namespace, link: Connection) -> tuple[str, str, bool]:
    """Outcome, detail, and whether the tests after it can still run."""
    if part.setup is not None:
        outcome, detail = _run_code(part.setup, names, link)
        if outcome != "pass":
            return outcome, detail, False
    outcome, detail = _run_code(part.check, names, link)
    return outcome, detail, outcome != "gone"


def _run_code(code: CodeType, names: _Namespace, link: Connection) -> tuple[str, str]:
    outcome, detail = "pass", ""
    try:
        exec(code, names)  # noqa: S102 - trusted tests, in a process of their own
    except BaseException as error:  # noqa: BLE001 - tests raise when a program is wrong
        raised = link.raised.get(id(error))
        if raised is not None and raised[0] is error:
            outcome, detail = raised[1:]
        elif not (isinstance(error, SystemExit) and not error.code):  # unittest.main ends like this
            outcome, detail = "fail", f"{type(error).__name__}: {_text(error)}"
    if link.gone:  # whatever the tests made of that
        return "gone", link.gone
    return outcome, detail


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a message that asks the program
        return ""


class _Namespace(dict[str, Any]):
    """The tests' global names. Those that they do not define themselves are the program's, as they are at that time."""

    def __init__(self, link: Connection, kinds: dict[str, str], seen: set[str], library: dict[str, Any]) -> None:
        super().__init__(library, __name__="__main__", **{SETTLE: link.settle})
        self._link, self._kinds, self._seen = link, kinds, seen

    def __missing__(self, name: str) -> Any:
        if name not in self._seen:
            raise KeyError(name)
        kind = self._kinds[name]
        if kind in ("value", "exception"):
            return self._link.ask("name", name)
        return self._link.proxy(name, kind)
