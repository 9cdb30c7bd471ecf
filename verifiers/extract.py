"""Find the final answer in what a model wrote. One linear scan, no mathematics.

The last balanced \\boxed{...} wins. Without a box an anchor is needed ("the answer is", "Answer:", "####",
<answer>...</answer>), and the last one wins. A number in passing is not an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from verifiers.boxes import boxes_of, side_by_side

MAX_TAGS = 2
"""Different answers in a row that may still be one answer with two parts."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer's text, or None. `problem` says why there is none, or why the text that is there matches nothing.

    `rule` names what decided, `span` is where the answer stands in the text that was searched. `parts` are the boxes
    of an answer in several boxes.
    """

    text: str | None
    problem: str = ""
    rule: str = ""
    span: tuple[int, int] | None = None
    parts: tuple[str, ...] = ()


MAX_MARKS = 64
"""Of one kind (boxes, tags, anchors) that are looked at, from the end of the text."""

_THINK = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|start|call)\|>")
_TURN = re.compile(
    r"<\|(?:im_start|im_end|eot_id|end|endoftext|user|start|start_header_id)\|>|</s>|<end_of_turn>|\[INST\]"
    r"|\n[ \t]{0,8}(?:\*\*|#{1,4} )?(?:user|human|system|instruction|question|problem|q)(?:\*\*)?[ \t]?:",
    re.IGNORECASE,
)
_ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_IS = r"(?:is|are|equals|(?:should|would|will|must) be|comes out (?:to|as))"
_ANCHOR = re.compile(
    rf"(?P<final>final\s)?\banswers?(?:\s(?:to|for)\s[^.:\n]{{1,60}}?)?\W{{0,4}}\s{_IS}(?![A-Za-z])"
    r"|(?P<final2>final\s)?\banswer\s{0,2}[*_]{0,3}\s{0,2}[:=]"
    r"|^[ \t*#]{0,8}(?P<heading>final )?answer[ \t*]{0,8}$"
    rf"|\b(?:option|choice)\s{_IS}(?![A-Za-z])|(?P<hashes>####)",
    re.IGNORECASE | re.MULTILINE,
)
_ANCHOR_WORDS = ("answer", "####", "option", "choice")
_BEFORE_ANCHOR, _AFTER_ANCHOR = 16, 120
_CONDITION = re.compile(r"\b(?:if|whether|unless|suppose|assuming)\b[^.!?\n]*\Z", re.IGNORECASE)
_OTHERS_ANSWER = re.compile(
    r"\b(?:ground[ -]?truth|gold(?:en|[ -]standard)?|reference|expected|true|official|labell?ed|target)\b"
    r"[\W_]*(?:the\s+)?\Z"
    r"|\b(?:graders?|grading|judge|evaluator|verifier|rubric)\b[^.!?\n]*\Z",
    re.IGNORECASE,
)
"""Before an anchor: it quotes what somebody else holds to be the answer, or speaks to the one who grades."""
_NEGATION = re.compile(r"\W*(?:(?:\w+ly|surely|also)\s+)?(?:not|never|n't|cannot|anything but)\b", re.IGNORECASE)
_DISPLAY = re.compile(r"\$\$([^$]+)\$\$|\\\[(.+?)\\\]", re.DOTALL)
_SENTENCE_END = re.compile(
    r"(?<![ap]\.m)[.;!?](?=[\s\"')*]|$)|(?<=\.m\.)\s|\n|\s[—–]\s+(?=[A-Za-z])"
    r"|,?\s+(?=\(?(?:because|since|so|as|which|where|but|by|although|(?:and )?not|rather than|instead of)\b)",
    re.IGNORECASE,
)
_LEADING = " \t\n*_:`"
_CONDITION_WINDOW = 60
_DECORATION = re.compile(r"\\[()]|\*\*|`")
_FILLED_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{\s*[^}\s]|[^{\s])")


def after_thinking(text: str) -> str | None:
    """What follows the last </think>; None when the thinking is still open."""
    start = _final_start(text)
    return None if start is None else text[start:]


def _final_start(text: str) -> int | None:
    """Where the text after the thinking starts; None when the thinking is still open."""
    last = None
    if "hink" in text or "HINK" in text:
        for tag in _THINK.finditer(text):
            last = tag
    if last is None:
        return 0
    return last.end() if last[1] else None


def find_answer(text: str, *, anchors: str = "all") -> Found:
    """The final answer of a text, with or without its thinking in front.

    `anchors` is "all", or "final" to take only <answer>, #### and "final answer" where there is no box.
    """
    start = _final_start(text)
    if start is None:
        return Found(None, "the thinking never closed", "open_thinking")
    final, channel_start = _final_channel(text[start:])
    if final is None:
        return Found(None, "there is only an analysis channel", "open_thinking")
    offset = start + channel_start
    final = _without_further_turns(_without_comments(final))
    found = _in_tags(final) or _boxed(final, 0) or _anchored(final, anchors)
    if found.span is None:
        return found
    return replace(found, span=(found.span[0] + offset, found.span[1] + offset))


def _final_channel(text: str) -> tuple[str | None, int]:
    """The last `final` channel of a harmony transcript and where it starts, or the text itself when there is none."""
    if "<|channel|>" not in text:
        return text, 0
    channels = list(_CHANNEL.finditer(text))
    if not channels or channels[-1][1].lower() != "final":
        return None, 0
    start = channels[-1].end()
    end = _CHANNEL_END.search(text, start)
    return text[start : end.start() if end else len(text)], start


def _without_comments(text: str) -> str:
    """Comments of HTML and LaTeX that hold a box, blanked out so that positions stay; not if no other box is left."""
    if "<!--" not in text and "%" not in text:
        return text
    hidden = text
    for start, end in _comments(text):
        if "\\boxed" in text[start:end] or "\\fbox" in text[start:end]:
            hidden = hidden[:start] + " " * (end - start) + hidden[end:]
    return hidden if "\\boxed" in hidden or "\\fbox" in hidden else text


def _comments(text: str) -> list[tuple[int, int]]:
    """Where the last comments of HTML and LaTeX are. A percent sign behind a number or glued to a word is none."""
    found = []
    at = len(text)
    while len(found) < MAX_MARKS and (at := text.rfind("<!--", 0, at)) >= 0:
        end = text.find("-->", at)
        found.append((at, len(text) if end < 0 else end + 3))
    at, tries = len(text), 0
    while tries < MAX_MARKS and (at := text.rfind("%", 0, at)) >= 0:
        tries += 1
        before = text[max(0, at - 40) : at]
        shown = before.rstrip(" \t")
        if (shown == before and before and not before.endswith("\n")) or shown[-1:].isdigit():
            continue
        end = text.find("\n", at)
        found.append((at, len(text) if end < 0 else end))
    return found


def _without_further_turns(text: str) -> str:
    """The text up to where another turn of a dialogue begins, if an answer stands before that."""
    for count, turn in enumerate(_TURN.finditer(text)):
        before = text[: turn.start()]
        if _FILLED_BOX.search(before) or _ANSWER_TAG.search(before) or _last_anchor(before, "all"):
            return before
        if count > 3:
            break
    return text


def _in_tags(text: str) -> Found | None:
    """The content of the last complete <answer>...</answer>. None: there is none."""
    tags = _tags(text)
    parts = [(opening.end(), closing.start()) for opening, closing in pairwise(tags) if not opening[1] and closing[1]]
    if not parts:
        return None
    start, end = parts[-1]
    contents = {text[a:b].strip() for a, b in parts}
    boxed = _boxed(text[start:end], start)
    if boxed is not None:
        return boxed
    spray = len(contents) > MAX_TAGS and parts[-1][0] - parts[0][0] < 60 * len(parts)
    return _found(text, start, end, "several answers side by side" if spray else "", "tag")


def _tags(text: str) -> list[re.Match[str]]:
    """The last answer tags."""
    start = at = len(text)
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    for _ in range(MAX_MARKS):
        at = lower.rfind("answer>", 0, at)
        if at < 0:
            break
        start = max(at - 2, 0)
    return list(_ANSWER_TAG.finditer(text, start)) if start < len(text) else []


def _found(text: str, start: int, end: int, problem: str, rule: str) -> Found:
    content = text[start:end]
    start += len(content) - len(content.lstrip())
    content = content.strip()
    return Found(content, problem, "spray" if problem else rule, (start, start + len(content)))


def _boxed(text: str, offset: int) -> Found | None:
    """The answer in the last box, or in the last boxes if they stand side by side. None: there is no box."""
    boxes, unclosed = boxes_of(text, MAX_MARKS)
    if unclosed >= 0 and (not boxes or boxes[-1].start < unclosed):
        return Found(None, "the last box never closes", "unclosed_box")
    if not boxes:
        return None
    if not boxes[-1].content(text):
        return Found("", "", "box", (boxes[-1].content_start + offset, boxes[-1].content_end + offset), ("",))
    run, is_spray = side_by_side(text, boxes)
    parts = tuple(dict.fromkeys(box.content(text) for box in run))
    first = run[-1] if len(parts) == 1 else run[0]
    span = (first.content_start + offset, run[-1].content_end + offset)
    if is_spray:
        return Found(", ".join(parts), "several boxes side by side", "spray", span)
    return Found(", ".join(parts), "", "boxes" if len(parts) > 1 else "box", span, parts)


def _last_anchor(text: str, accepted: str) -> re.Match[str] | None:
    """The last anchor that is meant as one, searched from the end."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    ends = {word: len(text) for word in _ANCHOR_WORDS}
    for _ in range(MAX_MARKS):
        at, word = max((lower.rfind(word, 0, end), word) for word, end in ends.items())
        if at < 0:
            return None
        ends = {other: min(end, at + len(word) - 1) for other, end in ends.items()}
        start = max(0, at - _BEFORE_ANCHOR)
        for anchor in _ANCHOR.finditer(text, start, min(len(text), at + _AFTER_ANCHOR)):
            if anchor.start() <= at < anchor.end() and _is_meant(text, anchor, accepted):
                return anchor
    return None


def _is_meant(text: str, anchor: re.Match[str], accepted: str) -> bool:
    if accepted == "final" and not any(anchor[name] for name in ("final", "final2", "heading", "hashes")):
        return False
    before = text[max(0, anchor.start() - _CONDITION_WINDOW) : anchor.start()]
    return _CONDITION.search(before) is None and _OTHERS_ANSWER.search(before) is None


def _anchored(text: str, accepted: str) -> Found:
    last = _last_anchor(text, accepted)
    if last is None:
        return Found(None, "no box and no anchor such as 'the answer is'", "no_anchor")
    start = last.end()
    while start < len(text) and text[start] in _LEADING:
        start += 1
    if _NEGATION.match(text, start):
        return Found(None, "the last 'the answer is' is negated", "negated")
    if display := _DISPLAY.match(text, start):
        group = 1 if display[1] is not None else 2
        return _found(text, display.start(group), display.end(group), "", "anchor")
    end = _SENTENCE_END.search(text, start)
    found = _found(text, start, end.start() if end else len(text), "", "anchor")
    content = _DECORATION.sub("", found.text or "").strip()
    if not content:
        return Found(None, "nothing follows the last 'the answer is'", "empty_anchor")
    return replace(found, text=content)
