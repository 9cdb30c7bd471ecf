"""The program as its tests see it from another process: plain values, and proxies of everything else.

A proxy is never equal to plain data and takes part in no arithmetic with it, so an object made to please any test
pleases none. `in` compares the elements here. What a program can decide is what its own objects do among themselves,
and what those do in arithmetic and for `in` that the tests make themselves, of a class with a capital letter: there
tests ask for a class, not for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Protocol

_STEPS = frozenset(["__next__", "send", "throw", "close", "__anext__", "asend", "athrow"])
"""Methods that may say by an exception that an iteration ends."""


class Link(Protocol):
    """The channel to the program's process."""

    def ask(self, what: str, target: Any, *arguments: Any, **keywords: Any) -> Any:
        """Have an operation done over there. Raises what it raises."""
        ...


def link_of(remote: Remote) -> Link:
    return object.__getattribute__(remote, "_link")


def node_of(remote: Remote) -> int | str:
    return object.__getattribute__(remote, "_node")


def _among_remotes(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: Remote, other: Any) -> Any:
        if not isinstance(other, Remote) and not _made_by_tests(self):
            return NotImplemented
        value = link_of(self).ask(name, node_of(self), other)
        if type(value) is Remote and _made_by_tests(self):
            object.__setattr__(value, "_made", True)
        return value

    return operate


def _made_by_tests(remote: Remote) -> bool:
    return object.__getattribute__(remote, "_made")


class Remote:
    # An object of the program. Operations are done over there; results come back as plain data or as proxies.
    __slots__ = ("_link", "_made", "_node")

    def __init__(self, link: Link, node: int | str) -> None:
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_node", node)
        object.__setattr__(self, "_made", False)

    @property
    def __doc__(self) -> Any:
        return link_of(self).ask("getattr", node_of(self), "__doc__")

    @property
    def __class__(self) -> Any:
        kind = link_of(self).ask("getattr", node_of(self), "__class__")
        return kind if type(kind) is Remote else Remote

    def __getattr__(self, name: str) -> Any:
        value = link_of(self).ask("getattr", node_of(self), name)
        if name in _STEPS and isinstance(value, Remote):
            return partial(link_of(self).ask, "step", node_of(value))
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        link_of(self).ask("setattr", node_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        link_of(self).ask("delattr", node_of(self), name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        node = node_of(self)
        value = link_of(self).ask("call", node, *arguments, **keywords)
        if type(value) is Remote:
            object.__setattr__(value, "_made", type(node) is str and node[:1].isupper())
        return value

    def __iter__(self) -> Iterator[Any]:
        iterator = link_of(self).ask("iter", node_of(self))
        if isinstance(iterator, Remote):
            while True:
                try:
                    item = link_of(self).ask("next", node_of(iterator))
                except StopIteration:
                    return
                yield item

    def __next__(self) -> Any:
        return link_of(self).ask("next", node_of(self))

    def __contains__(self, item: Any) -> bool:
        """By its elements, and only for an object that has none by what itself says."""
        try:
            link_of(self).ask("iter", node_of(self))
        except TypeError:
            if not _made_by_tests(self):
                raise
            return link_of(self).ask("contains", node_of(self), item) is True
        return any(element is item or element == item for element in self)

    def __len__(self) -> int:
        return link_of(self).ask("len", node_of(self))

    def __bool__(self) -> bool:
        return link_of(self).ask("bool", node_of(self)) is True

    def __getitem__(self, key: Any) -> Any:
        return link_of(self).ask("getitem", node_of(self), key)

    def __setitem__(self, key: Any, value: Any) -> None:
        link_of(self).ask("setitem", node_of(self), key, value)

    def __delitem__(self, key: Any) -> None:
        link_of(self).ask("delitem", node_of(self), key)

    def __str__(self) -> str:
        return str(link_of(self).ask("str", node_of(self)))

    def __repr__(self) -> str:
        return str(link_of(self).ask("repr", node_of(self)))

    def __enter__(self) -> Any:
        return link_of(self).ask("enter", node_of(self))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link_of(self).ask("exit", node_of(self))

    def __instancecheck__(self, value: Any) -> bool:
        return link_of(self).ask("isinstance", node_of(self), value) is True

    def __subclasscheck__(self, kind: Any) -> bool:
        return link_of(self).ask("issubclass", node_of(self), kind) is True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        return node_of(self) == node_of(other) or link_of(self).ask("eq", node_of(self), other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(link_of(self).ask("hash", node_of(self)))

    __lt__, __le__, __gt__, __ge__ = (_among_remotes(name) for name in ("lt", "le", "gt", "ge"))
    __add__, __sub__, __mul__, __matmul__ = (_among_remotes(name) for name in ("add", "sub", "mul", "matmul"))
    __truediv__, __floordiv__, __mod__ = (_among_remotes(name) for name in ("truediv", "floordiv", "mod"))
    __pow__, __lshift__, __rshift__ = (_among_remotes(name) for name in ("pow", "lshift", "rshift"))
    __and__, __or__, __xor__ = (_among_remotes(name) for name in ("and_", "or_", "xor"))

    __radd__, __rsub__, __rmul__ = (_among_remotes(name) for name in ("radd", "rsub", "rmul"))
    __rtruediv__, __rfloordiv__, __rmod__ = (_among_remotes(name) for name in ("rtruediv", "rfloordiv", "rmod"))

    __iadd__, __isub__, __imul__, __imatmul__ = (_among_remotes(name) for name in ("iadd", "isub", "imul", "imatmul"))
    __itruediv__, __ifloordiv__, __imod__ = (_among_remotes(name) for name in ("itruediv", "ifloordiv", "imod"))
    __ipow__, __ilshift__, __irshift__ = (_among_remotes(name) for name in ("ipow", "ilshift", "irshift"))
    __iand__, __ior__, __ixor__ = (_among_remotes(name) for name in ("iand", "ior", "ixor"))

    def __neg__(self) -> Any:
        return link_of(self).ask("neg", node_of(self))

    def __abs__(self) -> Any:
        return link_of(self).ask("abs", node_of(self))
