"""Unions of intervals: made from pairs and sets, joined, intersected, complemented."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from verifiers.mathematics.evaluate import approximate
from verifiers.mathematics.nodes import Node, has
from verifiers.mathematics.values import INFINITY, MINUS_INFINITY, Many, Nothing, Part, Region, Same, Scalar, Value


class Regions:
    """Operations on regions. Ends are ordered as floats and compared exactly."""

    def __init__(self, same: Same) -> None:
        self._same = same

    def interval(self, low: Node, low_closed: bool, high: Node, high_closed: bool) -> Value:
        if has(low, "list", "tuple", "set", "rel") or has(high, "list", "tuple", "set", "rel"):
            return Nothing("strange_interval")
        a, b = approximate(low), approximate(high)
        if (a is not None and abs(a) == inf and low_closed) or (b is not None and abs(b) == inf and high_closed):
            return Nothing("closed_infinity")
        if a is not None and b is not None and (a > b or (a == b and not (low_closed and high_closed))):
            return Nothing("empty_interval")
        return Region((Part(low, low_closed, high, high_closed),))

    def as_region(self, value: Value) -> Region | None:
        """The same set as a region: a pair is an open interval, a set its points."""
        if isinstance(value, Region):
            return value
        if isinstance(value, Many) and value.kind == "tuple" and len(value.items) == 2:
            low, high = value.items
            if isinstance(low, Scalar) and isinstance(high, Scalar) and not (low.name or high.name):
                part = self.interval(low.node, False, high.node, False)
                return part if isinstance(part, Region) else None
            return None
        if isinstance(value, Many) and value.kind == "set":
            if not value.items:
                return Region(())
            if all(isinstance(item, Scalar) and approximate(item.node) is not None for item in value.items):
                points = [Region((Part(item.node, True, item.node, True),)) for item in value.items]  # ty: ignore
                union = self.union(points)
                return union if isinstance(union, Region) else None
        return None

    def union(self, regions: list[Region]) -> Region | Nothing:
        parts = [part for region in regions for part in region.parts]
        ends = [(approximate(part.low), approximate(part.high)) for part in parts]
        if any(a is None or b is None for a, b in ends):
            return Region(tuple(parts))
        order = sorted(range(len(parts)), key=lambda at: (ends[at][0], not parts[at].low_closed))
        merged: list[tuple[Part, float]] = []
        for at in order:
            part, low, high = parts[at], ends[at][0], ends[at][1]
            assert low is not None
            assert high is not None
            if merged:
                last, last_high = merged[-1]
                touching = low == last_high or (abs(low - last_high) < 1e-9 and self._same(part.low, last.high))
                if low < last_high - 1e-9 or (touching and (part.low_closed or last.high_closed)):
                    if high > last_high + 1e-9:
                        merged[-1] = replace(last, high=part.high, high_closed=part.high_closed), high
                    elif abs(high - last_high) < 1e-9 or high == last_high:
                        merged[-1] = replace(last, high_closed=last.high_closed or part.high_closed), high
                    continue
            merged.append((part, high))
        return Region(tuple(part for part, _ in merged))

    def complement(self, parts: list[Part]) -> list[Part]:
        """What is left of the real line; `parts` ascend and are disjoint."""
        result, low, low_closed = [], MINUS_INFINITY, False
        for part in parts:
            if approximate(part.low) != -inf:
                result.append(Part(low, low_closed, part.low, not part.low_closed))
            low, low_closed = part.high, not part.high_closed
        if approximate(low) != inf or not parts:
            result.append(Part(low, low_closed, INFINITY, False))
        return result

    def intersection(self, regions: list[Region]) -> Region | Nothing:
        """By the complement of the union of the complements."""
        if any(approximate(end) is None for r in regions for part in r.parts for end in (part.low, part.high)):
            return Nothing("strange_intersection")
        outside = self.union([Region(tuple(self.complement(list(region.parts)))) for region in regions])
        return Region(tuple(self.complement(list(outside.parts)))) if isinstance(outside, Region) else outside

    def difference(self, region: Region, parts: list[Part]) -> Region | Nothing:
        removed = self.union([Region((part,)) for part in parts])
        if isinstance(removed, Nothing) or any(approximate(part.low) is None for part in removed.parts):
            return Nothing("strange_difference")
        return self.intersection([region, Region(tuple(self.complement(list(removed.parts))))])
