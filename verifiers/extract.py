"""Find the final answer in what a model wrote. One linear scan, no mathematics.

The last balanced \\boxed{...} wins. Without a box an anchor is needed ("the answer is", "Answer:", "####",
<answer>...</answer>), and the last one wins. A number in passing is not an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """The answer's text, or None. `problem` says why there is none, or why the text that is there matches nothing."""

    text: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Box:
    """A box at [start, end) of a text, what it holds at [content_start, content_end)."""

    start: int
    end: int
    content_start: int
    content_end: int


_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_TOKEN = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*\{?|\\.|[{}]", re.DOTALL)
_BARE = re.compile(r"[-+]?\d+(?:[.,/]\d+)*|[A-Za-z](?![A-Za-z])")
_ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_ANCHOR = re.compile(
    r"\banswer(?:\s(?:to|for)\s[^.:\n]{1,60}?)?\W{0,4}\s(?:is|are)\b"
    r"|\banswer\s{0,2}(?:\*\*)?\s{0,2}[:=]"
    r"|^[ \t*#]*final answer[ \t*]*$"
    r"|\boption is\b|####",
    re.IGNORECASE | re.MULTILINE,
)
_NEGATION = re.compile(r"\W*not\b", re.IGNORECASE)
_DISPLAY = re.compile(r"\$\$([^$]+)\$\$|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE_END = re.compile(r"[.;!?](?=\s|$)|\n|,\s+(?=(?:because|since|so|as|which|where|but)\b)")
_DECORATION = re.compile(r"\\[()]|\$|\*\*|`")
_JOINERS = frozenset({"and", "or", "option", "case", "text", "quad", "qquad", "item"})
_LONGEST_JOINT = 40


def after_thinking(text: str) -> str | None:
    """What follows the last </think>; None when the thinking is still open."""
    final = text.rpartition("</think>")[2]
    return None if "<think>" in final else final


def find_answer(text: str) -> Found:
    """The final answer of a text, with or without its thinking in front."""
    final = after_thinking(text)
    if final is None:
        return Found(None, "the thinking never closed")
    tagged = _tagged(final)
    if tagged is not None:
        return _boxed(tagged) or Found(tagged.strip())
    return _boxed(final) or _anchored(final)


def _tagged(text: str) -> str | None:
    """The content of the last complete <answer>...</answer>."""
    tags = list(_ANSWER_TAG.finditer(text))
    for opening, closing in zip(reversed(tags[:-1]), reversed(tags[1:]), strict=True):
        if not opening[1] and closing[1]:
            return text[opening.end() : closing.start()]
    return None


def _boxed(text: str) -> Found | None:
    """The answer in the last box, or in the last boxes if they stand side by side. None: there is no box."""
    boxes, unclosed = _boxes(text)
    if unclosed >= 0 and (not boxes or boxes[-1].start < unclosed):
        return Found(None, "the last box never closes")
    if not boxes:
        return None
    beside = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if not _only_joins(text[box.end : beside[-1].start]):
            break
        beside.append(box)
    contents = [_BOX.sub("", text[box.content_start : box.content_end]).strip() for box in reversed(beside)]
    different = list(dict.fromkeys(contents))
    return Found(", ".join(different), "several boxes side by side" if len(different) > 2 else "")


def _boxes(text: str) -> tuple[list[_Box], int]:
    """Outermost balanced boxes in order, and the start of the last box that never closes (-1: none)."""
    boxes: list[_Box] = []
    open_braces: list[tuple[int, int] | None] = []  # (start of a box, start of its content); None for another brace
    for token in _TOKEN.finditer(text):
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
                boxes.append(_Box(token.start(), bare.end(), bare.start(), bare.end()))
    return boxes, max((opened[0] for opened in open_braces if opened is not None), default=-1)


def _close(text: str, boxes: list[_Box], start: int, content_start: int, content_end: int, end: int) -> None:
    """Append a box that takes in those inside it. A box around nothing but a box holds what that one holds."""
    inner: list[_Box] = []
    while boxes and boxes[-1].start > start:
        inner.append(boxes.pop())
    if len(inner) == 1 and not (text[content_start : inner[0].start] + text[inner[0].end : content_end]).strip():
        content_start, content_end = inner[0].content_start, inner[0].content_end
    boxes.append(_Box(start, end, content_start, content_end))


def _only_joins(gap: str) -> bool:
    """Whether the text between two boxes only joins them: blanks, punctuation, "and", the marks of a list."""
    if len(gap) > _LONGEST_JOINT:
        return False
    return all(len(word) == 1 or word.lower() in _JOINERS for word in re.findall("[A-Za-z]+", gap))


def _anchored(text: str) -> Found:
    anchors = list(_ANCHOR.finditer(text))
    if not anchors:
        return Found(None, "no box and no anchor such as 'the answer is'")
    rest = text[anchors[-1].end() :].lstrip(" \t\n*:")
    if _NEGATION.match(rest):
        return Found(None, "the last 'the answer is' is negated")
    display = _DISPLAY.match(rest)
    answer = (display[1] or display[2]) if display else _SENTENCE_END.split(rest, maxsplit=1)[0]
    answer = _DECORATION.sub("", answer).strip()
    return Found(answer) if answer else Found(None, "nothing follows the last 'the answer is'")
