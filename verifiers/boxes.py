"""The boxes of a text, and whether the last ones are one answer, a list or a spray."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_TOKEN = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*\{?|\\.|[{}]", re.DOTALL)
_BARE = re.compile(r"[-+]?\d+(?:[.,/]\d+)*|[A-Za-z](?![A-Za-z])|\\[A-Za-z]+")
_JOINERS = frozenset({"and", "or", "option", "case", "text", "quad", "qquad", "item", "candidate", "choice", "answer"})
_HEDGES = frozenset({"maybe", "perhaps", "possibly", "alternatively", "either", "else", "could", "might", "guess"})
_RETRACTION = re.compile(
    r"\b(?:no|wait|but|actually|however|instead|wrong|mistake|error|correct(?:ed|ion)?|rather|sorry|oops|hmm|recheck"
    r"|check|hence|therefore|thus|so|then|total|sum|final(?:ly)?|now|hold|retract)\b",
    re.IGNORECASE,
)
_WORD = re.compile("[A-Za-z]+")
_LONGEST_JOINT = 40


@dataclass(frozen=True, slots=True)
class Box:
    """A box at [start, end) of a text, what it holds at [content_start, content_end)."""

    start: int
    end: int
    content_start: int
    content_end: int

    def content(self, text: str) -> str:
        """What the box holds, without the commands of boxes inside it."""
        return _BOX.sub("", text[self.content_start : self.content_end]).strip()


def boxes_of(text: str, most: int) -> tuple[list[Box], int]:
    """Outermost balanced boxes in order, and the start of the last box that never closes (-1: none).

    Only the last `most` boxes are looked at, so that a long text costs nothing.
    """
    boxes: list[Box] = []
    open_braces: list[tuple[int, int] | None] = []  # (start of a box, start of its content); None for another brace
    for token in _TOKEN.finditer(text, _start_of_last(text, most)):
        if token[0] == "{":
            open_braces.append(None)
        elif token[0] == "}":
            opened = open_braces.pop() if open_braces else None
            if opened is not None:
                _close(text, boxes, *opened, content_end=token.start(), end=token.end())
        elif _BOX.match(token[0]):
            if token[0].endswith("{"):
                open_braces.append((token.start(), token.end()))
            elif bare := _BARE.match(text, token.end()):
                boxes.append(Box(token.start(), bare.end(), bare.start(), bare.end()))
    return boxes, max((opened[0] for opened in open_braces if opened is not None), default=-1)


def _start_of_last(text: str, count: int) -> int:
    """Where the last `count` boxes begin."""
    start = at = len(text)
    commands = [command for command in ("\\boxed", "\\fbox") if command in text]
    for _ in range(count if commands else 0):
        at = max(text.rfind(command, 0, at) for command in commands)
        if at < 0:
            break
        start = at
    return start


def _close(text: str, boxes: list[Box], start: int, content_start: int, content_end: int, end: int) -> None:
    """Append a box that takes in those inside it. A box around nothing but a box holds what that one holds."""
    inner: list[Box] = []
    while boxes and boxes[-1].start > start:
        inner.append(boxes.pop())
    if len(inner) == 1 and not (text[content_start : inner[0].start] + text[inner[0].end : content_end]).strip():
        content_start, content_end = inner[0].content_start, inner[0].content_end
    boxes.append(Box(start, end, content_start, content_end))


def side_by_side(text: str, boxes: list[Box]) -> tuple[list[Box], bool]:
    """The last boxes that together are the answer, and whether they are a spray of guesses.

    Two boxes that are only joined ("and", a comma) are one list. Three or more different ones with next to nothing
    between them are a spray, even if they end in the right one.
    """
    joined = close = 1
    while joined < len(boxes) and _only_joins(_gap(text, boxes, joined)):
        joined += 1
    while close < len(boxes) and _is_close(_gap(text, boxes, close)):
        close += 1
    run = boxes[-max(joined, close) :]
    if len({box.content(text) for box in run}) > 2:
        return run, True
    return boxes[-joined:], False


def _gap(text: str, boxes: list[Box], back: int) -> str:
    """What stands between the box `back` from the end and the one before it; cut where it is too long to matter."""
    start, end = boxes[-back - 1].end, boxes[-back].start
    return text[start : min(end, start + _LONGEST_JOINT + 1)]


def _only_joins(gap: str) -> bool:
    """Whether the text between two boxes only joins them: blanks, punctuation, "and", the marks of a list."""
    if len(gap) > _LONGEST_JOINT or "?" in gap:
        return False
    return all(len(word) == 1 or word.lower() in _JOINERS | _HEDGES for word in _WORD.findall(gap))


def _is_close(gap: str) -> bool:
    """Whether the text between two boxes is short and neither retracts the first nor reasons on."""
    return len(gap) <= _LONGEST_JOINT and not _RETRACTION.search(gap)
