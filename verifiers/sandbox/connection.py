"""The tests' side of the channel to a program: asks for operations, and makes values or proxies of the answers."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Coroutine
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from verifiers.sandbox.derived import derived, program_of, update
from verifiers.sandbox.remote import Remote, node_of
from verifiers.sandbox.wire import Channel, Unpackable, pack, read_exception, unpack


class ProgramGone(BaseException):
    """The program's process has ended, or sent what is no message."""


class ProgramExit(BaseException):
    """The program raised what is no Exception, such as SystemExit."""


class Connection:
    """The channel to the program's process.

    `gone` tells why it can be used no more. `raised` holds the exceptions that came from there, with their reasons.
    """

    def __init__(self, fd: int) -> None:
        self._channel = Channel(fd)
        self._held: list[Any] = []
        self._changes: list[tuple[tuple[Any, ...], list[Any]]] = []
        self._proxies: dict[int | str, Remote] = {}
        self._derived_values: dict[int, Any] = {}
        self._classes: dict[tuple[str, ...], type[BaseException]] = {}
        self.gone = ""
        self.raised: dict[int, tuple[BaseException, str, str]] = {}

    def ask(self, what: str, target: Any, *arguments: Any, **keywords: Any) -> Any:
        """Have an operation done over there. Raises what it raises."""
        packed = [self.pack(argument) for argument in arguments]
        request: dict[str, Any] = {"do": what, "on": target, "args": packed}
        if keywords:
            request["keywords"] = {name: self.pack(value) for name, value in keywords.items()}
        answer = self._exchange(request)
        if "error" in answer:
            raise self._error(answer["error"], ends=what in ("next", "step"))
        if "changed" in answer:
            self._changes.append(((*arguments, *keywords.values()), answer["changed"]))
        value = self._unpack(answer.get("value"))
        if value is None:
            self.settle()
        return value

    def settle(self) -> None:
        """Let the tests see what the program changed in their own values.

        A call that gives nothing is for that. Where it gives something, the rest of the statement still sees the
        values as they were, so that a program cannot change what its answer is compared with.
        """
        changes, self._changes = self._changes, []
        for arguments, changed in changes:
            for argument, node in zip(arguments, changed, strict=False):
                if node is not None:
                    update(argument, self._unpack(node))

    def receive(self) -> dict[str, Any]:
        try:
            return self._channel.receive()
        except (OSError, EOFError, ValueError) as error:
            raise self._lost(str(error)) from None

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.gone:
            raise ProgramGone(self.gone)
        while True:
            try:
                self._channel.send(request)
            except OSError as error:
                raise self._lost(str(error)) from None
            answer = self.receive()
            if "too_long" in answer:
                raise self._lost("a value that is too long")
            if "call" not in answer:
                return answer
            request = self._call_here(answer)

    def _lost(self, why: str) -> ProgramGone:
        self.gone = self.gone or why or "it has ended"
        return ProgramGone(self.gone)

    def _call_here(self, message: dict[str, Any]) -> dict[str, Any]:
        """The program calls a function that the tests gave it."""
        try:
            function = self._held[message["call"]]
            arguments = [self._unpack(node) for node in message["args"]]
            keywords = {name: self._unpack(node) for name, node in message["keywords"].items()}
            return {"value": self.pack(function(*arguments, **keywords))}
        except Exception as error:  # noqa: BLE001 - goes to the program, which called
            known = next(base for base in type(error).__mro__ if vars(builtins).get(base.__name__) is base)
            return {"error": {"known": known.__name__, "args": pack((str(error),))}}

    def pack(self, value: Any) -> Any:
        return pack(value, self._opaque)

    def _opaque(self, value: Any, inherits: Any) -> Any:
        if inherits is not None:
            program = program_of(value)
            return inherits if program is None else {"yours": node_of(program)}
        if isinstance(value, Remote):
            node = node_of(value)
            return {"yours": node} if type(node) is int else {"name": node}
        if isinstance(value, type | BuiltinFunctionType | FunctionType):
            module, path = getattr(value, "__module__", None), value.__qualname__
            if module in sys.stdlib_module_names and _found(module, path) is value:
                return {"import": [module, path]}
        if isinstance(value, FunctionType | MethodType | BuiltinFunctionType) or callable(value):
            self._held.append(value)
            return {"held": [len(self._held) - 1, getattr(value, "__name__", ""), getattr(value, "__doc__", None)]}
        raise TypeError(f"tests cannot hand a {type(value).__name__} to the program")

    def _unpack(self, node: Any) -> Any:
        try:
            return unpack(node, self._foreign)
        except Unpackable as error:
            raise self._lost(str(error)) from None

    def _foreign(self, tag: str, content: Any) -> Any:
        if tag == "held":
            number, kind, exception = content
            if exception:
                return self._exception_class(exception)
            return self.proxy(int(number), str(kind))
        if tag == "derived":
            return self._derived(*content)
        if tag == "yours":
            return self._held[content]
        if tag == "type":
            kind = vars(builtins)[content]
            if isinstance(kind, type):
                return kind
        raise Unpackable(f"unknown tag {tag!r:.20}")

    def proxy(self, node: int | str, kind: str) -> Any:
        if kind.startswith("module:") and (name := kind[7:]).split(".")[0] in sys.stdlib_module_names:
            return importlib.import_module(name)
        if kind == "coroutine":
            return self._coroutine(node)
        return self._proxies.setdefault(node, Remote(self, node))

    def _derived(self, number: int, packed: Any) -> Any:
        """The same object for the same one over there, as it is now."""
        plain = self._unpack(packed)
        if number in self._derived_values:
            update(self._derived_values[number], plain)
        else:
            self._derived_values[number] = derived(plain, Remote(self, number))
        return self._derived_values[number]

    async def _coroutine(self, node: int | str) -> Coroutine[Any, Any, Any]:
        return self.ask("await", node)

    def _exception_class(self, bases: list[list[str]]) -> type[BaseException]:
        """A class of our own for one of the program's, the same one each time. Bases come nearest first."""
        names = tuple(str(name) for name, _ in bases)
        own = [name for name, module in bases if module != "builtins"]
        known: Any = vars(builtins).get(names[len(own)] if len(own) < len(names) else "Exception", Exception)
        if not (isinstance(known, type) and issubclass(known, Exception)):
            return ProgramExit
        for depth in reversed(range(len(own))):
            key = names[depth:]
            if key not in self._classes:
                self._classes[key] = type(own[depth], (known,), {})
            known = self._classes[key]
        return known

    def _error(self, error: Any, *, ends: bool) -> BaseException:
        """`ends`: it may end an iteration. Elsewhere that would end the tests' own loops, so it becomes another."""
        reason, text = read_exception(error)
        try:
            kind = self._exception_class(error["class"])
            arguments = unpack(error["args"])
        except (KeyError, TypeError, ValueError) as problem:
            return self._lost(f"a malformed exception: {problem}")
        if issubclass(kind, StopIteration | StopAsyncIteration) and not ends:
            kind, arguments = RuntimeError, (f"the program raised {text}",)
        try:
            raised = kind(*arguments)
        except Exception:  # noqa: BLE001 - arguments that this class does not take
            raised = ProgramExit(text)
        self.raised[id(raised)] = raised, reason, text
        return raised


def _found(module: str, path: str) -> Any:
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value
