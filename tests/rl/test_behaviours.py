"""Behaviours by markers in the text."""

import pytest

from rl.behaviours import behaviour_shares


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Let me double-check: 3 + 4 = 7.", {"checks itself"}),
        ("11 16 19 + 16 =35 no 11 + 19 =30 yes check", {"checks itself", "goes back"}),
        ("Wait, that's wrong.", {"goes back"}),
        ("First, break it down. Step 2: add.", {"sets sub-goals"}),
        ("I know nothing of notes and checkers.", set()),
        ("", set()),
    ],
)
def test_what_shows_a_behaviour(text: str, shown: set[str]) -> None:
    assert {name for name, share in behaviour_shares([text]).items() if share} == shown


def test_shares() -> None:
    assert behaviour_shares(["check", "", "check", "no"])["checks itself"] == 0.5
    assert set(behaviour_shares([]).values()) == {0}
