"""The program's side: runs it in the box and answers requests. Nothing here is trusted, for the program can change it.

Four modes. `stdio` runs the program as a script. `call` runs it and then calls its `entry` with the arguments of each
case. `names` runs it and then serves its names to the tests, which are in another process. `shared` runs the tests
right after it, in its own namespace.
"""

from __future__ import annotations

import _sitebuiltins
import atexit
import builtins
import gc
import importlib
import linecache
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from verifiers.sandbox import hopeless
from verifiers.sandbox.names import Names
from verifiers.sandbox.saying import SCRIPT, describe, flush, reply, show
from verifiers.sandbox.wire import Channel, Unpackable, pack, unpack

_WARM = "abc collections.abc contextlib copy enum functools io itertools json math operator re string threading typing"
"""Each library in C, and each module in Python with its constants, makes every fork slower: only the usual are here."""
_fork_hooks: list[Callable[[], Any]] = []


def warm_up() -> None:
    """Import what programs often use.

    What these modules want to be done after a fork is put off: it is wanted in the forks of a program, where
    `_become_a_program` registers it, but would cost every program a hundred page faults.
    """
    register = os.register_at_fork
    os.register_at_fork = _put_off  # ty: ignore[invalid-assignment]
    try:
        for name in _WARM.split():
            importlib.import_module(name)
    finally:
        os.register_at_fork = register
    for name in ("exit", "quit"):  # the interpreter was started without `site`, which brings these
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()
    hopeless.be_watchful()


def _put_off(*, after_in_child: Callable[[], Any], **_: Any) -> None:
    _fork_hooks.append(after_in_child)


def _become_a_program(text: str, folder: str) -> None:
    for hook in _fork_hooks:
        os.register_at_fork(after_in_child=hook)
    linecache.lazycache(SCRIPT, {"__name__": SCRIPT, "__loader__": _Source(text)})
    own = sys.modules["builtins"] = ModuleType("builtins")  # so that what it patches does not break this module
    own.__dict__.update(vars(builtins))
    sys.path.insert(0, folder)
    sys.argv = [SCRIPT]
    _open_streams()
    gc.enable()


def _open_streams() -> None:
    """Those that there are know the zygote's descriptors, which could not be what a program's are."""
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")


def _stream(fd: int, mode: str, errors: str) -> Any:
    return open(fd, mode, 1 if fd == 2 else -1, "utf-8", errors, closefd=False)


class _Source:
    """Where tracebacks find the program's text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, _: str) -> str:
        return self._text


def serve(fd: int, folder: str) -> int:
    """Do the job that comes over `fd`, with `folder` as working directory. The exit status of the program."""
    channel = Channel(fd)
    channel.send({"ready": True})
    job = channel.receive()
    job["program"] = job["program"].removeprefix("\ufeff")
    _become_a_program(job["program"], folder)
    hopeless.watch_sleep(job["timeout_s"])
    if job["mode"] == "stdio":
        os.close(fd)
        return _run_script(job["program"], folder)
    try:
        module = _load(job["program"], "solution")
    except BaseException as error:  # noqa: BLE001 - a program may raise anything; told to the other side
        show(error)
        channel.send({"error": describe(error)})
        return 1
    if job["mode"] == "call":
        _serve_calls(channel, job["entry"], module)
    elif job["mode"] == "names":
        Names(channel, module).serve()
    else:
        _run_shared(channel, module)
    return 0


def _load(program: str, name: str) -> ModuleType:
    """Run the program as a module: not as `__main__`, for what stands under that condition reads the input."""
    module = ModuleType(name)
    sys.modules[name] = module
    module.__dict__.update(__file__=SCRIPT, __builtins__=sys.modules["builtins"])
    exec(compile(program, SCRIPT, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - what the box is for
    return module


def _run_script(program: str, folder: str) -> int:
    return _finish(_execute(program, os.path.join(folder, SCRIPT)))


def _execute(program: str, path: str) -> int:
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=sys.modules["builtins"])
    status = 0
    try:
        with open(path, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(program)
        exec(compile(program, SCRIPT, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - what the box is for
    except SystemExit as stop:
        status = _exit_status(stop.code)
    except BaseException as error:  # noqa: BLE001 - a script may raise anything
        show(error)
        status = 1
    return status


def _finish(status: int) -> int:
    """What the interpreter does at its end, as far as a program could see it."""
    import threading

    try:
        threading._shutdown()  # ty: ignore[missing-attribute]
        atexit._run_exitfuncs()
        flush()
        sys.modules.pop("__main__", None)
        gc.collect()  # runs what `__del__` methods there are, before their globals go
    except BaseException as error:  # noqa: BLE001 - as above
        show(error)
    return status if flush() else 120


def _exit_status(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _serve_calls(channel: Channel, entry: str, module: ModuleType) -> None:
    channel.send({"loaded": True})
    code = compile(entry, "<entry>", "eval", dont_inherit=True)
    while True:
        try:
            request = channel.receive()
        except EOFError:
            return
        arguments = unpack(request["args"])
        try:
            value = eval(code, module.__dict__)(*arguments)  # noqa: S307 - the entry comes with the tests
            try:
                message = {"value": pack(value)}
            except (Unpackable, RecursionError) as error:
                message = {"opaque": str(error)[:200]}
        except BaseException as error:  # noqa: BLE001 - a program may raise anything
            show(error)
            message = {"error": describe(error)}
        flush()
        reply(channel, message)


def _run_shared(channel: Channel, module: ModuleType) -> None:
    channel.send({"loaded": True})
    request = channel.receive()
    try:
        exec(compile(request["code"], "<tests>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - trusted tests
    except BaseException as error:  # noqa: BLE001 - tests raise when a program is wrong
        show(error)
        message = {"error": describe(error)}
    else:
        message = {"nonce": request["nonce"]}
    flush()
    reply(channel, message)
