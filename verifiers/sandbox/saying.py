"""How the program's process tells what has happened. All of it survives what a program may have broken."""

from __future__ import annotations

import builtins
import errno
import sys
import traceback
from typing import Any

from verifiers.sandbox.wire import MAX_FRAME, Channel, frame, pack

SCRIPT = "main.py"
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENETUNREACH, errno.EAFNOSUPPORT})


def flush() -> bool:
    """Write out what was printed, also to the first streams where a program has put others in their place."""
    good = [_flush(stream) for stream in (sys.stdout, sys.stderr)]
    for stream in (sys.__stdout__, sys.__stderr__):  # a program may have taken these apart, which is no mistake
        _flush(stream)
    return all(good)


def _flush(stream: Any) -> bool:
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException:  # noqa: BLE001 - a program may have put anything there
        return False
    return True


def show(error: BaseException) -> None:
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != SCRIPT:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace, limit=-20)
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - it may be beyond printing
        return


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as plain data: its name, that of the closest built-in class, arguments if plain, and what it was."""
    kind = type(error)
    known = next((base for base in kind.__mro__ if vars(builtins).get(base.__name__) is base), BaseException)
    try:
        text = str(error)[:300]
    except BaseException:  # noqa: BLE001 - a program's own __str__
        text = ""
    try:
        arguments = pack(error.args)
    except BaseException:  # noqa: BLE001 - not plain
        arguments = {"t": [text]}
    reason = "crash"
    if isinstance(error, MemoryError):
        reason = "memory"
    elif isinstance(error, OSError) and error.errno in _REFUSALS:
        reason = "blocked"
    return {"name": kind.__name__, "known": known.__name__, "args": arguments, "text": text, "reason": reason}


def reply(channel: Channel, message: dict[str, Any]) -> None:
    """Send an answer, or instead of one that is too long for the channel, say so."""
    try:
        data = frame(message)
    except (ValueError, RecursionError):
        data = frame({"opaque": "not plain data"})
    channel.write(data if len(data) <= MAX_FRAME else frame({"too_long": True}))
