"""Instances of a program's subclasses of plain types, as the tests see them.

For comparison they are what they inherit, and nothing else. What the plain type does not have, such as the fields of a
named tuple, is asked of the program; what a method there changes is then read again.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from verifiers.sandbox.remote import Remote, link_of, node_of

_MUTABLE = (list, dict, set, bytearray)


def derived(plain: Any, program: Remote) -> Any:
    """`plain`, as an instance of a local subclass that stands for the object `program`."""
    value = _class(type(plain))(plain)
    value._program = program
    return value


def program_of(value: Any) -> Remote | None:
    """The program's object that a value stands for, if it is one made by `derived`."""
    return value._program if _Derived in type(value).__mro__ else None


def update(old: Any, new: Any) -> None:
    """Make a mutable value equal to `new` in place, and those in it."""
    if not _alike(old, new):
        return
    if isinstance(old, list):
        if len(old) == len(new):
            for i, value in enumerate(new):
                if old[i] is not value and _alike(old[i], value) and isinstance(value, list | dict | set):
                    update(old[i], value)
                else:
                    old[i] = value
        else:
            old[:] = new
    elif isinstance(old, dict | set):
        contents = new.copy()
        old.clear()
        old.update(contents)
    elif isinstance(old, bytearray):
        old[:] = new


def _alike(old: Any, new: Any) -> bool:
    return type(old) is type(new) or (program_of(old) is not None and isinstance(old, type(new)))


class _Derived:
    """What the local subclasses have beside their plain type."""

    _program: Remote

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = getattr(self._program, name)
        return partial(_call, self, value) if isinstance(value, Remote) and isinstance(self, _MUTABLE) else value


def _call(value: Any, method: Any, *arguments: Any, **keywords: Any) -> Any:
    result = method(*arguments, **keywords)
    update(value, link_of(value._program).ask("contents", node_of(value._program)))
    return result


def _missing(self: Any, key: Any) -> Any:
    return link_of(self._program).ask("getitem", node_of(self._program), key)


@lru_cache(maxsize=64)
def _class(plain: type) -> type:
    return type(plain.__name__, (_Derived, plain), {"__missing__": _missing} if plain is dict else {})
