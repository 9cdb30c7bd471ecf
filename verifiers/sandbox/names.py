"""A program's names, and the objects that it hands out, served to tests in another process."""

from __future__ import annotations

import builtins
import importlib
from _thread import RLock
from collections.abc import Callable
from types import CoroutineType, ModuleType
from typing import Any

from verifiers.sandbox.saying import describe, flush, reply, show
from verifiers.sandbox.wire import Channel, Unpackable, inherited, pack, unpack


class Names:
    """Serves the program's names, and the objects that it hands out, to tests in another process."""

    def __init__(self, channel: Channel, module: ModuleType) -> None:
        self._channel = channel
        self._names = module.__dict__
        self._held: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._lock = RLock()

    def serve(self) -> None:
        self._send({"loaded": {name: _kind(value) for name, value in list(self._names.items()) if name[:2] != "__"}})
        while True:
            try:
                request = self._channel.receive()
            except EOFError:
                return
            self._send(self._answer(request))

    def _send(self, message: dict[str, Any]) -> None:
        flush()
        reply(self._channel, message)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            target = self._target(request["on"])
            packed = request["args"]
            arguments = [unpack(node, self._foreign) for node in packed]
            keywords = {name: unpack(node, self._foreign) for name, node in request.get("keywords", {}).items()}
            value = OPERATIONS[request["do"]](target, *arguments, **keywords)
            answer = {"value": self._pack(value)}
            if request["do"] in CALLS:
                named = list(request.get("keywords", {}).values())
                self._add_changes(answer, packed + named, arguments + list(keywords.values()))
        except BaseException as error:  # noqa: BLE001 - a program may raise anything
            if not isinstance(error, StopIteration | StopAsyncIteration):
                show(error)
            answer = {"error": {**describe(error), "class": self._exception_class(type(error))}}
        return answer

    def _add_changes(self, answer: dict[str, Any], packed: list[Any], arguments: list[Any]) -> None:
        """A call may have changed its arguments in place; then they go back."""
        after = [self._pack(argument) for argument in arguments]
        if after != packed:
            answer["changed"] = [new if new != old else None for old, new in zip(packed, after, strict=True)]

    def _target(self, node: Any) -> Any:
        if type(node) is int:
            return self._held[node]
        if node in self._names:
            return self._names[node]
        raise NameError(f"name {node!r} is not defined")

    def _pack(self, value: Any) -> Any:
        try:
            return pack(value, self._opaque)
        except (RecursionError, ValueError):
            return self._opaque(value, None)

    def _opaque(self, value: Any, inherits: Any) -> Any:
        if inherits is not None:
            return {"derived": [self._number(value), inherits]}
        if isinstance(value, _Callback):
            return {"yours": value.number}
        if isinstance(value, type) and vars(builtins).get(value.__name__) is value:
            return {"type": value.__name__}
        return {"held": [self._number(value), _kind(value), self._exception_class(value)]}

    def _number(self, value: Any) -> int:
        """The same for the same object, which is held from then on."""
        number = self._numbers.setdefault(id(value), len(self._held))
        if number == len(self._held):
            self._held.append(value)
        return number

    def _exception_class(self, value: Any) -> list[Any] | None:
        """Of an exception class of the program's own: its name and the names of its bases, the nearest first."""
        if not (isinstance(value, type) and issubclass(value, BaseException)):
            return None
        return [[base.__name__, base.__module__] for base in value.__mro__ if base is not object]

    def _foreign(self, tag: str, content: Any) -> Any:
        if tag == "yours":
            return self._held[content]
        if tag == "name":
            return self._target(content)
        if tag == "import":
            module, path = content
            value = importlib.import_module(module)
            for part in path.split("."):
                value = getattr(value, part)
            return value
        if tag == "held":
            return self._callback(*content)
        raise Unpackable(f"unknown tag {tag!r}")

    def _callback(self, number: int, name: str, doc: str | None) -> Any:
        callback = _Callback(self, number)
        callback.__name__ = callback.__qualname__ = name
        callback.__doc__ = doc
        return callback

    def call_back(self, number: int, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a function of the tests, while these wait for an answer."""
        with self._lock:
            packed = {name: self._pack(value) for name, value in keywords.items()}
            self._send({"call": number, "args": [self._pack(value) for value in arguments], "keywords": packed})
            while True:
                message = self._channel.receive()
                if "do" not in message:
                    break
                self._send(self._answer(message))
        if "error" in message:
            kind = vars(builtins)[message["error"]["known"]]
            raise kind(*unpack(message["error"]["args"]))
        return unpack(message["value"], self._foreign)


class _Callback:
    """A function of the tests that the program was given."""

    def __init__(self, names: Names, number: int) -> None:
        self._names = names
        self.number = number
        self.__name__ = self.__qualname__ = ""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._names.call_back(self.number, arguments, keywords)


def _kind(value: Any) -> str:
    """How the tests should see it."""
    if isinstance(value, ModuleType):
        return f"module:{value.__name__}"
    if isinstance(value, CoroutineType):
        return "coroutine"
    if isinstance(value, type) and issubclass(value, BaseException):
        return "exception"
    return "callable" if callable(value) else "value"


def _await(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _operators() -> dict[str, Callable[..., Any]]:
    import operator

    names = (
        "add",
        "sub",
        "mul",
        "matmul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lshift",
        "rshift",
        "and_",
        "or_",
        "xor",
    )
    names += tuple(f"i{name.rstrip('_')}" for name in names)
    names += ("eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "getitem", "setitem", "delitem")
    found = {name: getattr(operator, name) for name in names}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
        found[f"r{name}"] = lambda value, other, operate=found[name]: operate(other, value)
    return found


CALLS = ("call", "step")
"""A step is a call that may end an iteration."""
OPERATIONS: dict[str, Callable[..., Any]] = {
    **_operators(),
    "name": lambda value: value,
    **dict.fromkeys(CALLS, lambda function, *arguments, **keywords: function(*arguments, **keywords)),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "iter": iter,
    "next": next,
    "len": len,
    "hash": hash,
    "contains": lambda value, item: item in value,
    "contents": inherited,
    "bool": bool,
    "str": str,
    "repr": repr,
    "enter": lambda value: value.__enter__(),
    "exit": lambda value: value.__exit__(None, None, None),
    "isinstance": lambda kind, value: isinstance(value, kind),
    "issubclass": lambda kind, value: issubclass(value, kind),
    "await": _await,
}
