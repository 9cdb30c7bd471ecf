"""Where the labels of a figure go: plain geometry, in pixels with y upwards.

Direct labels beat a legend only when they hide nothing, so each label takes the candidate place that covers the
least of what is already drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]

_SIDES = ((0, 1), (-1, 1), (1, -1), (0, -1), (1, 1), (-1, -1), (1, 0), (-1, 0))


@dataclass(frozen=True, slots=True)
class Box:
    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def centred(cls, x: float, y: float, width: float, height: float) -> Box:
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def center(self) -> Point:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def grown(self, margin: float) -> Box:
        return Box(self.x0 - margin, self.y0 - margin, self.x1 + margin, self.y1 + margin)

    def overlaps(self, other: Box) -> bool:
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def within(self, frame: Box) -> bool:
        return frame.x0 <= self.x0 and self.x1 <= frame.x1 and frame.y0 <= self.y0 and self.y1 <= frame.y1

    def crossed_by(self, start: Point, end: Point) -> bool:
        """Whether the segment touches the box (clipping of Y.-D. Liang and B. Barsky, 1984)."""
        enter, leave = 0.0, 1.0
        for origin, target, low, high in ((start[0], end[0], self.x0, self.x1), (start[1], end[1], self.y0, self.y1)):
            step = target - origin
            if step == 0.0:
                if not low <= origin <= high:
                    return False
                continue
            near, far = sorted(((low - origin) / step, (high - origin) / step))
            enter, leave = max(enter, near), min(leave, far)
        return enter <= leave


@dataclass(slots=True)
class Canvas:
    """What is drawn already: `boxes` must not be covered, `paths` (polylines) had better not be.

    Labels keep `margin` from each other.
    """

    margin: float
    boxes: list[Box] = field(default_factory=list)
    paths: list[Sequence[Point]] = field(default_factory=list)

    def place(self, candidates: Iterable[Box], frame: Box) -> Box:
        """Takes the best candidate within `frame`, the earlier of equals, and keeps its place."""
        best = min(candidates, key=lambda box: self._cost(box, frame))
        self.boxes.append(best.grown(self.margin))
        return best

    def _cost(self, box: Box, frame: Box) -> tuple[bool, int, int]:
        covered = sum(map(box.overlaps, self.boxes))
        crossed = sum(box.crossed_by(start, end) for path in self.paths for start, end in pairwise(path))
        return not box.within(frame), covered, crossed


def around(anchor: Point, width: float, height: float, gap: float) -> Iterator[Box]:
    """Places on all sides of a marker, nearest first."""
    for distance in (gap, 2 * gap, 3.5 * gap, 5 * gap):
        for across, up in _SIDES:
            reach = distance * (math.sqrt(0.5) if across and up else 1.0)
            x, y = anchor[0] + across * (reach + width / 2), anchor[1] + up * (reach + height / 2)
            yield Box.centred(x, y, width, height)


def beside(anchor: Point, width: float, height: float, gap: float) -> Iterator[Box]:
    """Places to the right of the end of a line, on its height first, then ever further up and down."""
    for step in range(12):
        for direction in (1, -1):
            y = anchor[1] + direction * step * height / 2
            yield Box.centred(anchor[0] + gap + width / 2, y, width, height)


def along(top: float, bottom: float, x0: float, x1: float, width: float, height: float, gap: float) -> Iterator[Box]:
    """Places above the highest and below the lowest of horizontal lines from x0 to x1, at their left end first."""
    for step in range(25):
        x = x0 + width / 2 + step / 24 * (x1 - x0 - width)
        yield Box.centred(x, top + gap + height / 2, width, height)
        yield Box.centred(x, bottom - gap - height / 2, width, height)


def above(anchor: Point, width: float, height: float, gap: float) -> Iterator[Box]:
    """Places just above a bar, centred first, then ever further to either side."""
    for step in range(9):
        for direction in (1, -1):
            x = anchor[0] + direction * step * width / 8
            yield Box.centred(x, anchor[1] + gap + height / 2, width, height)


def merge_close(positions: Sequence[float], ratio: float) -> list[list[int]]:
    """Indices of positive `positions`, in ascending order, with neighbours closer than `ratio` in one group."""
    groups: list[list[int]] = []
    previous = -math.inf
    for index in sorted(range(len(positions)), key=positions.__getitem__):
        if groups and positions[index] < previous * ratio:
            groups[-1].append(index)
        else:
            groups.append([index])
        previous = positions[index]
    return groups


def group_within(falling: Sequence[float], reach: float) -> list[list[int]]:
    """Indices of `falling` values; a value no more than `reach` below the first of a group belongs to it."""
    groups: list[list[int]] = []
    for index, value in enumerate(falling):
        if groups and falling[groups[-1][0]] - value <= reach:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
