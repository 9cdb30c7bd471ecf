"""Values cross with their exact types, and nothing else crosses."""

import datetime
import json
import math
import os
from collections import Counter, OrderedDict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.sandbox import wire

atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.fractions()
)
hashable = st.recursive(atoms, lambda inner: st.one_of(st.tuples(inner, inner), st.frozensets(inner)), max_leaves=5)
values = st.recursive(
    hashable, lambda inner: st.one_of(st.lists(inner), st.dictionaries(hashable, inner), st.tuples(inner)), max_leaves=9
)


def through(value):
    return wire.unpack(json.loads(json.dumps(wire.pack(value))))


def shape(value):
    if isinstance(value, list | tuple):
        return type(value), [shape(item) for item in value]
    if isinstance(value, dict):
        return dict, [(shape(key), shape(item)) for key, item in value.items()]
    return type(value), value


@given(values)
@settings(max_examples=200, deadline=None)
def test_what_goes_in_comes_out(value):
    assert shape(through(value)) == shape(value)


@pytest.mark.parametrize(
    "value",
    [
        2**5000,
        -(2**1024),
        float("-inf"),
        -0.0,
        1j,
        bytearray(b"\xff"),
        range(1, 10, 2),
        deque([1, 2], 3),
        Decimal("1.10"),
        Fraction(-1, 3),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - those with a zone do not cross
        datetime.date(2020, 1, 2),
        datetime.timedelta(days=-1, microseconds=5),
        ...,
        NotImplemented,
        "\ud800",
    ],
)
def test_rarer_values(value):
    assert shape(through(value)) == shape(value)
    assert repr(through(value)) == repr(value)


def test_nan_stays_nan():
    assert math.isnan(through(float("nan")))


def test_subclasses_give_up_what_they_inherit():
    class Liar(int):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

        def __int__(self):
            return 7

    class Text(str):
        def __str__(self):
            return "other"

    class Items(list):
        def __iter__(self):
            return iter([9])

    Color = IntEnum("Color", {"RED": 3})
    Point = namedtuple("Point", "x y")
    cases = [
        (Liar(3), 3),
        (Text("a"), "a"),
        (Items([1]), [1]),
        (Color.RED, 3),
        (Point(1, 2), (1, 2)),
        (Counter("aa"), {"a": 2}),
        (OrderedDict(a=1), {"a": 1}),
    ]
    for value, plain in cases:
        assert shape(through(value)) == shape(plain)


@pytest.mark.parametrize("value", [object(), lambda: 0, int, [iter([])], {"a": object()}])
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(wire.Unpackable):
        wire.pack(value)


@pytest.mark.parametrize(
    "node",
    [
        {"?": 1},
        {},
        {"t": 1},
        {"t": [1], "s": []},
        {"i": "zz"},
        {"i": 5},
        {"s": [[1]]},
        {"d": [[1], []]},
        {"d": 3},
        {"F": ["0x1", "0x0"]},
        {"c": ["x", 1]},
        {"b": "\u20ac"},
        {"D": "one"},
        {"dt": "tomorrow"},
        {"q": [[1], "x"]},
        {"s": [k * (2**61 - 1) for k in range(1, 60000)]},
        {"d": [[k * (2**61 - 1) for k in range(1, 60000)], [0] * 59999]},
        {"d": [[1, 2], [3]]},
        {"F": [hex(1 << 100000), "0x3"]},
        {"r": ["0x0", hex(1 << 100000), "0x3"]},
        {"D": "1" * 20000},
    ],
)
def test_malformed_values_are_refused(node):
    with pytest.raises(wire.Unpackable):
        wire.unpack(node)


def test_unpacked_lists_are_new():
    node = [1, 2]
    wire.unpack(node).append(3)
    assert node == [1, 2]


def test_frames_come_out_of_pieces():
    frames, out = wire.Frames(), []
    for byte in wire.frame({"a": 1}) + wire.frame({"b": [2]}):
        frames.feed(bytes([byte]))
        while (message := frames.next()) is not None:
            out.append(message)
    assert out == [{"a": 1}, {"b": [2]}]


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\x02[]", b"\0\0\0\x01{", b"\0\0\0\x02\xff\xff"])
def test_bad_frames(data):
    frames = wire.Frames()
    frames.feed(data)
    with pytest.raises(ValueError, match=r"message|Expecting|utf-8"):
        frames.next()
    reader, writer = os.pipe()
    os.write(writer, data)
    with pytest.raises(ValueError, match=r"message|Expecting|utf-8"):
        wire.Channel(reader).receive()
    os.close(writer)
    os.close(reader)


def test_nesting_without_end_is_refused():
    with pytest.raises(ValueError, match="deep"):
        wire.parse(b'{"a":' + b"[" * 10**6 + b"]" * 10**6 + b"}")
