"""The geometry of labels: what touches, what is near, and which place is taken."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eval.labels import Box, Canvas, above, along, around, beside, group_within, merge_close

FRAME = Box(0, 0, 400, 300)
NUMBERS = st.integers(-20, 20)
POINTS = st.tuples(NUMBERS, NUMBERS)


@given(POINTS, POINTS)
def test_a_segment_crosses_a_box_when_one_of_its_points_is_inside(start, end):
    steps = np.linspace(start, end, 2001)

    def holds_a_step(box):
        return ((steps > (box.x0, box.y0)) & (steps < (box.x1, box.y1))).all(axis=1).any()

    box = Box(-5.5, -3.5, 6.5, 4.5)
    if holds_a_step(box):
        assert box.crossed_by(start, end)
    if box.crossed_by(start, end):
        assert holds_a_step(box.grown(0.1))


def test_a_segment_that_passes_by_does_not_cross():
    box = Box(0, 0, 2, 1)
    assert not box.crossed_by((-1, 2), (3, 2))
    assert not box.crossed_by((-1, 0.5), (-0.5, 0.5))
    assert not box.crossed_by((-1, 1), (1, 3))
    assert box.crossed_by((-1, 0.5), (3, 0.5))
    assert box.crossed_by((1, 0.5), (1, 0.5))


def test_boxes_that_only_touch_do_not_overlap():
    assert not Box(0, 0, 1, 1).overlaps(Box(1, 0, 2, 1))
    assert Box(0, 0, 1, 1).overlaps(Box(0.9, 0.9, 2, 2))


def test_a_label_goes_above_its_point_and_evades_what_is_there():
    canvas = Canvas(margin=2)
    first = canvas.place(around((200, 150), 40, 10, 6), FRAME)
    assert first.center == (200, 161)
    second = canvas.place(around((202, 150), 40, 10, 6), FRAME)
    assert not second.overlaps(first.grown(2))
    rising = Canvas(margin=2, paths=[[(200, 150), (215, 250)]])
    assert rising.place(around((200, 150), 40, 10, 6), FRAME).center[0] < 200


def test_a_label_stays_in_the_frame():
    canvas = Canvas(margin=2)
    for corner in ((0, 0), (400, 0), (0, 300), (400, 300)):
        assert canvas.place(around(corner, 40, 10, 6), FRAME).within(FRAME)
    assert canvas.place(along(299, 299, 0, 400, 60, 10, 2), FRAME).within(FRAME)


def test_names_of_lines_that_end_together_are_stacked():
    canvas = Canvas(margin=2)
    placed = [canvas.place(beside((200, 150), 80, 10, 8), FRAME) for _ in range(4)]
    assert not any(one.overlaps(other) for one in placed for other in placed if one is not other)
    assert {box.x0 for box in placed} == {208}


def test_a_label_above_a_bar_moves_sideways():
    canvas = Canvas(margin=2)
    first, second = (canvas.place(above((x, 20), 30, 10, 4), FRAME) for x in (200, 215))
    assert first.center[0] == 200
    assert second.center[1] == first.center[1]
    assert not first.overlaps(second)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=12))
def test_groups_hold_every_point_once_and_lie_apart(positions):
    groups = merge_close(positions, 1.15)
    assert sorted(index for group in groups for index in group) == list(range(len(positions)))
    for group, following in pairwise(groups):
        assert positions[following[0]] >= 1.15 * positions[group[-1]]


def test_close_points_by_hand():
    assert merge_close([900, 2600, 3100, 3300, 3310], 1.15) == [[0], [1], [2, 3, 4]]
    assert merge_close([3310, 900, 3300], 1.15) == [[1], [2, 0]]


def test_a_group_reaches_from_its_first_value():
    assert group_within([13, 10, 8, 7, 7], 2) == [[0], [1, 2], [3, 4]]
    assert group_within([], 2) == []
