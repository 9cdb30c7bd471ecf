"""Messages between the processes: frames of JSON, and plain values with their exact types in them. Never pickle.

A frame is its length in four bytes and a JSON object. In a packed value, JSON's null, booleans, numbers, strings and
arrays are what they are in Python, an array being a list; every other type is an object with one tagged member. An
instance of a subclass is packed as what it inherits, by the methods of the base class: nothing that it overrides
counts. It goes to `opaque` with that, and what is no plain value at all with None: there it may become a reference.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

MAX_FRAME = 16 << 20
"""Bytes; decoding may take twenty times as much memory."""
_CLOSED = "the other side has closed the channel"
_ATOMS = frozenset({type(None), bool, str, float})
_JSON_BITS = 1024
_FEW, _CROWD = 16, 100
_LEAST_PATIENCE_S, _BYTE_S = 0.2, 1e-7
_patience = _LEAST_PATIENCE_S
"""Seconds of processor time that may still go into the tables of the last message; it has more the longer it is."""
_MAX_DIGITS = 10_000

Opaque = Callable[[Any, Any], Any]


class Unpackable(ValueError):
    """A value that is no plain data, or a packed value that is malformed."""


def refuse(value: Any, inherits: Any) -> Any:
    if inherits is None:
        raise Unpackable(f"not plain data: {type(value).__name__}")
    return inherits


def pack(value: Any, opaque: Opaque = refuse) -> Any:
    """`value` as something that JSON can carry. Raises RecursionError if it is nested too deeply or in itself."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is int:
        return value if -(1 << _JSON_BITS) < value < 1 << _JSON_BITS else {"i": hex(value)}
    if kind is list:
        return _pack_items(value, opaque)
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer(value, opaque)
    if kind.__module__ in _LATE_MODULES and (packer := _LATE_PACKERS.get((kind.__module__, kind.__qualname__))):
        return packer(value, opaque)
    plain = inherited(value)
    return opaque(value, None if plain is None else pack(plain, opaque))


def inherited(value: Any) -> Any:
    """What an instance of a subclass has of its plain base class, or None if there is no such class."""
    for base in type.__dict__["__mro__"].__get__(type(value)):
        if base in _BASES:
            return _BASES[base](value)
    return None


def _pack_items(items: Any, opaque: Opaque) -> list[Any]:
    if _ATOMS.issuperset(map(type, items)):
        return list(items)
    return [pack(item, opaque) for item in items]


def _pack_dict(value: dict[Any, Any], opaque: Opaque) -> dict[str, Any]:
    return {"d": [_pack_items(value.keys(), opaque), _pack_items(value.values(), opaque)]}


_PACKERS: dict[type, Callable[[Any, Opaque], Any]] = {
    tuple: lambda value, opaque: {"t": _pack_items(value, opaque)},
    dict: _pack_dict,
    set: lambda value, opaque: {"s": _pack_items(value, opaque)},
    frozenset: lambda value, opaque: {"f": _pack_items(value, opaque)},
    deque: lambda value, opaque: {"q": [_pack_items(value, opaque), value.maxlen]},
    bytes: lambda value, _: {"b": value.decode("latin-1")},
    bytearray: lambda value, _: {"B": value.decode("latin-1")},
    complex: lambda value, _: {"c": [value.real, value.imag]},
    slice: lambda value, opaque: {"x": _pack_items((value.start, value.stop, value.step), opaque)},
    range: lambda value, _: {"r": [hex(value.start), hex(value.stop), hex(value.step)]},
    type(...): lambda _value, _opaque: {"e": 0},
    type(NotImplemented): lambda _value, _opaque: {"n": 0},
}
_LATE_PACKERS: dict[tuple[str, str], Callable[[Any, Opaque], Any]] = {  # of modules that few programs import
    ("fractions", "Fraction"): lambda value, _: {"F": [hex(value.numerator), hex(value.denominator)]},
    ("decimal", "Decimal"): lambda value, _: {"D": str(value)},
    ("datetime", "datetime"): lambda value, opaque: opaque(value, None) if value.tzinfo else {"dt": value.isoformat()},
    ("datetime", "date"): lambda value, _: {"da": value.isoformat()},
    ("datetime", "time"): lambda value, opaque: opaque(value, None) if value.tzinfo else {"ti": value.isoformat()},
    ("datetime", "timedelta"): lambda value, _: {"td": [value.days, value.seconds, value.microseconds]},
}
_LATE_MODULES = frozenset(module for module, _ in _LATE_PACKERS)
_BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: lambda value: complex(complex.__dict__["real"].__get__(value), complex.__dict__["imag"].__get__(value)),
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    deque: lambda value: deque(deque.__iter__(value)),
}


def unpack(node: Any, foreign: Callable[[str, Any], Any] | None = None) -> Any:
    """The value of a packed one. Tags that are no plain value go to `foreign`.

    Raises:
        Unpackable: it is malformed.
    """
    try:
        return _unpack(node, foreign)
    except Unpackable:
        raise
    except (TypeError, ValueError, ArithmeticError, RecursionError, AttributeError) as error:
        raise Unpackable(f"malformed value: {type(error).__name__}") from None


def _unpack(node: Any, foreign: Callable[[str, Any], Any] | None) -> Any:
    kind = type(node)
    if kind is list:
        if _PLAIN_NODES.issuperset(map(type, node)):
            return node.copy()
        return [_unpack(item, foreign) for item in node]
    if kind is not dict:
        return node
    ((tag, content),) = node.items()
    unpacker = _UNPACKERS.get(tag)
    if unpacker is not None:
        return unpacker(content)
    if tag in _CONTAINERS:
        return _CONTAINERS[tag](content, lambda items: _unpack(_list(items), foreign))
    if foreign is None:
        raise Unpackable(f"unknown tag {tag!r:.20}")
    return foreign(tag, content)


_PLAIN_NODES = frozenset({type(None), bool, str, float, int})


def _list(node: Any) -> list[Any]:
    if type(node) is not list:
        raise Unpackable("a container without a list")
    return node


def _unpack_dict(content: Any, items: Callable[[Any], list[Any]]) -> dict[Any, Any]:
    keys, values = (items(part) for part in content)
    table: dict[Any, Any] = {}
    _fill(keys, lambda first, last: table.update(zip(keys[first:last], values[first:last], strict=True)))
    return table


def _set(keys: list[Any]) -> set[Any]:
    found: set[Any] = set()
    _fill(keys, lambda first, last: found.update(keys[first:last]))
    return found


def _fill(keys: list[Any], put: Callable[[int, int], None]) -> None:
    """Fill a table part by part. With keys that were chosen to collide it could take hours: a message has its time."""
    global _patience
    if len(keys) <= _FEW:
        put(0, _FEW)
        return
    started = time.thread_time()
    for first in range(0, len(keys), _CROWD):
        put(first, first + _CROWD)
        if time.thread_time() - started > _patience:
            raise Unpackable("keys that collide")
    _patience -= time.thread_time() - started


def _whole(content: str) -> int:
    """An integer that later arithmetic cannot make slow."""
    if len(content) > _MAX_DIGITS:
        raise Unpackable("a number of too many digits")
    return int(content, 16)


def _decimal(content: str) -> Any:
    if len(content) > _MAX_DIGITS:
        raise Unpackable("a number of too many digits")
    return _late("decimal", "Decimal")(content)


_CONTAINERS: dict[str, Callable[[Any, Callable[[Any], list[Any]]], Any]] = {
    "t": lambda content, items: tuple(items(content)),
    "d": _unpack_dict,
    "s": lambda content, items: _set(items(content)),
    "f": lambda content, items: frozenset(_set(items(content))),
    "x": lambda content, items: slice(*items(content)),
    "q": lambda content, items: deque(items(content[0]), content[1]),
}
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "i": lambda content: int(content, 16),
    "b": lambda content: content.encode("latin-1"),
    "B": lambda content: bytearray(content.encode("latin-1")),
    "c": lambda content: complex(float(content[0]), float(content[1])),
    "r": lambda content: range(*map(_whole, content)),
    "F": lambda content: _late("fractions", "Fraction")(*map(_whole, content)),
    "D": _decimal,
    "dt": lambda content: _late("datetime", "datetime").fromisoformat(content),
    "da": lambda content: _late("datetime", "date").fromisoformat(content),
    "ti": lambda content: _late("datetime", "time").fromisoformat(content),
    "td": lambda content: _late("datetime", "timedelta")(*content),
    "e": lambda _: ...,
    "n": lambda _: NotImplemented,
}


def read_exception(error: Any) -> tuple[str, str]:
    """Why a program raised ("crash", "memory" or "blocked") and a text, from what it says, which may be anything."""
    if type(error) is not dict:
        return "crash", "an exception"
    reason = error.get("reason")
    text = f"{error.get('name')!s:.80}: {error.get('text')!s:.300}"
    return reason if reason in ("memory", "blocked") else "crash", text


def _late(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


_decode, _encode = json.JSONDecoder().decode, json.JSONEncoder(check_circular=False).encode


def frame(message: Any) -> bytes:
    data = _encode(message).encode()
    return len(data).to_bytes(4) + data


class Channel:
    """Frames over a descriptor, blocking. For the two sides that are ended from outside when they hang."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, message: Any) -> None:
        self.write(frame(message))

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def receive(self) -> Any:
        """Raises EOFError, or ValueError if the frame is malformed."""
        size = int.from_bytes(self._read(4))
        if size > MAX_FRAME:
            raise ValueError(f"a message of {size} bytes")
        return parse(self._read(size))

    def _read(self, size: int) -> bytes:
        data = os.read(self.fd, size)
        if len(data) == size:
            return data
        parts = [data]
        size -= len(data)
        while size:
            if not data:
                raise EOFError(_CLOSED)
            data = os.read(self.fd, min(size, 1 << 20))
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


class Frames:
    """Frames out of bytes as they come, for the side that must not block."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> Any | None:
        """The next message if it is complete. Raises ValueError if it is malformed or too long."""
        if len(self._data) < 4:
            return None
        size = int.from_bytes(self._data[:4])
        if size > MAX_FRAME:
            raise ValueError(f"a message of {size} bytes")
        if len(self._data) < 4 + size:
            return None
        message = parse(bytes(self._data[4 : 4 + size]))
        del self._data[: 4 + size]
        return message


def parse(data: bytes) -> dict[str, Any]:
    """Raises ValueError if it is no JSON object."""
    global _patience
    _patience = _LEAST_PATIENCE_S + _BYTE_S * len(data)
    try:
        message = _decode(data.decode())
    except RecursionError:
        raise ValueError("a message nested too deeply") from None
    if type(message) is not dict:
        raise ValueError("a message that is no object")
    return message
