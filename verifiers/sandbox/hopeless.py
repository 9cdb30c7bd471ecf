"""Programs that surely do not end in time: ended at once, with the verdict that waiting would give.

This runs in the program's process and can harm only the program, and only one that nothing else can change: without
another thread, a child (that of a child may outlive it), or a signal handler. Three things are hopeless there:

- A sleep that is longer than the time of a test.
- A loop that has come back to where all variables that it uses are as they were there before, if nothing on the way
  could see or change anything else: no call, attribute or iterator, only arithmetic, comparisons, subscripts and jumps
  over plain values. What such a program does next it has done already.
- A loop that no jump leads out of and that only adds and compares whole numbers, which raises nothing.

The instructions of a loop are watched for a moment when it has used much processor time and SIGNAL is sent. One that
counts up to something, calls or appends is never taken for endless. Instructions differ from one version of Python to
the next: loops are watched only where that has been tried.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from contextlib import suppress
from functools import update_wrapper
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dis
    from collections.abc import Callable

SIGNAL = signal.SIGURG
"""Ignored where it is not handled, as after `exec`."""
_END = signal.SIGXCPU
_LAST_TRIED = (3, 13)
_CO_OPTIMIZED = 1
_INSTRUCTIONS = 2000
_VALUES = 100_000
"""That may be compared in all; so long a list is not watched to no end."""
_ATOMS = frozenset({int, bool, str, bytes, type(None), range})
_ITEMS = {list: list, tuple: list, set: list, frozenset: list, dict: lambda value: [*value.keys(), *value.values()]}
_HARMLESS = frozenset(
    [
        *("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "COPY", "LOAD_CONST"),
        *("LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_TOP", "STORE_SUBSCR", "SWAP", "TO_BOOL"),
    ]
)
# Not EXTENDED_ARG: the instruction that it extends is not traced, and so might do anything unseen.
_ON_VARIABLES = ("LOAD_FAST", "STORE_FAST", "LOAD_NAME", "STORE_NAME", "LOAD_GLOBAL", "STORE_GLOBAL")
_JUMPS = ("JUMP_", "POP_JUMP_")
_HARMLESS_KINDS = (*_ON_VARIABLES, *_JUMPS, "UNARY_")
_NUMBERS = (int, bool)
_SUMS = ("+", "-", "+=", "-=")
_ON_NUMBERS = ("COMPARE_OP", "COPY", "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_TOP", "SWAP", "TO_BOOL", "UNARY_NOT")
_OF_LOCALS = frozenset({"locals", "vars", "eval", "exec", "f_locals"})
"""Before Python 3.13 a trace changes the dictionary that these have given, which the program could see."""
_kill, _process = os.kill, os.getpid  # a program may put others in their place


def be_watchful() -> None:
    """Handle SIGNAL in this process and those that are forked from it, if the instructions of this Python are known."""
    if sys.version_info[:2] <= _LAST_TRIED:
        signal.signal(SIGNAL, _look)


def watch_sleep(longest: float) -> None:
    """End this process, and none that it forks, when it goes to sleep for more seconds than that."""
    time.sleep = _Sleep(time.sleep, longest)  # ty: ignore[invalid-assignment]


class _Sleep:
    """Stands for `time.sleep`, and like it is no method where a class has it, and can be pickled by its name."""

    def __init__(self, really_sleep: Callable[..., None], longest: float) -> None:
        update_wrapper(self, really_sleep)
        self.__module__ = "time"
        self._really_sleep, self._longest, self._own = really_sleep, longest, _process()

    def __call__(self, seconds: Any, /) -> None:
        with suppress(Exception):  # a program is not disturbed by what it may have broken here
            is_long = type(seconds) in (int, float) and seconds > self._longest
            if is_long and _process() == self._own and _is_alone():
                _end()
        self._really_sleep(seconds)

    def __reduce__(self) -> str:
        return "sleep"


def _look(_: int, frame: FrameType | None) -> None:
    try:
        importing = frame is None or frame.f_code.co_filename.startswith("<frozen")  # may hold locks that we need
        if not importing and not _is_observed() and _is_alone():
            _Watch(frame).begin()  # after which nothing may be called here, for a call ends it
    except BaseException:  # noqa: BLE001 - a program is not disturbed by what it may have broken here
        return


def _is_observed() -> bool:
    """Whether the program is called back about what it runs."""
    if sys.version_info >= (3, 12) and any(sys.monitoring.get_tool(tool) is not None for tool in range(6)):
        return True
    return sys.gettrace() is not None or sys.getprofile() is not None


def _is_alone() -> bool:
    """Whether nothing but this thread can change what it sees."""
    handled = {number for number in signal.valid_signals() if callable(signal.getsignal(number))}
    if _thread._count() or not handled <= {SIGNAL, signal.SIGINT}:
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        import resource  # by the few that need it: what the zygote has makes every fork slower

        had_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0  # whose own may live on
        return not had_children and signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    return False


class _Watch:
    """Traces a frame, instruction by instruction, until one is not harmless or a state has come back."""

    def __init__(self, frame: FrameType) -> None:
        from opcode import opname  # by the few that need it: what the zygote has makes every fork slower

        self._frame = frame
        self._code, self._names_of_codes = frame.f_code.co_code, opname
        self._steps: dict[int, dis.Instruction] | None = None
        self._used: set[tuple[str, bool]] = set()
        self._seen: dict[Any, Any] = {}  # states, with what keeps the identities in them from being used again
        self._last, self._count, self._compared = -1, 0, 0

    def begin(self) -> None:
        optimized = self._frame.f_code.co_flags & _CO_OPTIMIZED
        if optimized and sys.version_info < (3, 13) and not self._may_keep_locals():
            return
        if type(self._frame.f_globals) is dict and (optimized or type(self._frame.f_locals) is dict):
            self._set_trace(self._trace)

    def _may_keep_locals(self) -> bool:
        """Whether it changes nothing that a trace fills a dictionary of the local variables, kept with the frame."""
        if not _OF_LOCALS.isdisjoint(self._frame.f_code.co_names):
            return False
        values = self._frame.f_locals
        try:
            for value in values.values():
                self._state(value, [])
        except ValueError:  # an object that might tell when it is let go
            return False
        finally:
            values.clear()
        self._compared = 0
        return True

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        goes_on = False
        with suppress(BaseException):
            goes_on = frame is self._frame and event == "opcode" and self._goes_on(frame.f_lasti)
        if goes_on:
            return self._trace
        self._set_trace(None)
        return None

    def _set_trace(self, trace: Any) -> None:
        sys.settrace(trace)
        self._frame.f_trace = trace
        self._frame.f_trace_opcodes, self._frame.f_trace_lines = trace is not None, trace is None

    def _goes_on(self, offset: int) -> bool:
        """Take in what comes next. False when no more can be learnt."""
        if offset <= self._last:  # a jump back, where nothing of the loop lies on the stack
            if self._steps is None:
                self._steps = _steps(self._frame.f_code)
            if self._has_no_end(offset, self._last):
                _end()
            held: list[Any] = []
            state = offset, *(self._state(self._value(*name), held) for name in sorted(self._used))
            if state in self._seen:
                _end()
            self._seen[state] = held
        self._last = offset
        self._count += 1
        return self._count < _INSTRUCTIONS and self._is_harmless(offset)

    def _is_harmless(self, offset: int) -> bool:
        name = self._names_of_codes[self._code[offset]]
        used = set(_variables(self._steps[offset])) if self._steps is not None else self._used
        if not used <= self._used:
            self._used |= used
            self._seen.clear()  # they were states of fewer variables
        return name in _HARMLESS or name.startswith(_HARMLESS_KINDS)

    def _has_no_end(self, first: int, last: int) -> bool:
        """Whether the loop from `first` to `last` only adds and compares whole numbers, and no jump leads out of it."""
        assert self._steps is not None
        loop = [step for offset, step in self._steps.items() if first <= offset <= last]
        for step in loop:
            if step.opname.startswith(_JUMPS):
                if not first <= step.argval <= last:
                    return False
            elif step.opname.startswith(_ON_VARIABLES):
                if any(type(self._value(*variable)) not in _NUMBERS for variable in _variables(step)):
                    return False
            elif step.opname == "BINARY_OP":
                if step.argrepr not in _SUMS:
                    return False
            elif step.opname not in _ON_NUMBERS and not (step.opname == "LOAD_CONST" and type(step.argval) in _NUMBERS):
                return False
        return loop[-1].opname == "JUMP_BACKWARD"

    def _value(self, name: str, is_global: bool) -> Any:
        if not is_global and name in self._frame.f_locals:
            return self._frame.f_locals[name]
        return self._frame.f_globals[name]

    def _state(self, value: Any, held: list[Any]) -> Any:
        """What tells this plain value from others, and objects from equal ones. ValueError: it is not plain."""
        self._compared += 1
        kind = type(value)
        if kind in _ATOMS:
            return kind, value
        if kind is float and value == value:  # what is not a number is compared by its identity in lists
            return kind, value.hex()
        if kind not in _ITEMS or self._compared > _VALUES:
            raise ValueError
        held.append(value)
        return kind, id(value), *(self._state(item, held) for item in _ITEMS[kind](value))


def _steps(code: CodeType) -> dict[int, dis.Instruction]:
    """The instructions by their offsets."""
    import dis  # by the few that need it, as above

    return {step.offset: step for step in dis.get_instructions(code)}


def _variables(step: dis.Instruction) -> list[tuple[str, bool]]:
    """Those that an instruction uses, and whether they are surely global."""
    if not step.opname.startswith(_ON_VARIABLES):
        return []
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return [(name, "GLOBAL" in step.opname) for name in names]


def _end() -> None:
    signal.signal(_END, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [_END])
    _kill(_process(), _END)
