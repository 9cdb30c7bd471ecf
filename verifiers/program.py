"""Find the Python program in what a model wrote. A few linear scans; nothing is parsed or run.

The last fenced block wins: of those marked as Python, else of those without a mark, and among them one that defines
what the tests call comes first. A last block may lack its closing fence, a first one its opening fence (a forced answer
begins inside). Without any fence, a text that is clearly a program counts from its first line of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

from verifiers.extract import after_thinking

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)$", re.MULTILINE)
_TAIL_FENCE = re.compile(r"(?<=[^\s`'\"])`{3,}[ \t]*$", re.MULTILINE)
_DEEPEST_CLOSING = 3
"""A closing fence may be indented by that much more than the opening one; more is text of the block (CommonMark)."""
_LANGUAGE = re.compile(r"[\w#+-]+")
_OTHER_LANGUAGES = frozenset(
    re.findall(
        r"\S+",
        "bash c c# c++ cmd console cpp csharp css csv diff go haskell html input java javascript js json julia kotlin"
        " latex markdown math md output perl php plaintext pseudocode r ruby rust scala sh shell sql stderr stdin"
        " stdout swift tex text ts txt typescript xml yaml yml zsh",
    )
)
_CODE = re.compile(
    r"^(?:from[ ]+[\w.]+[ ]+import\b|import[ ]+[\w.]+(?:[ ]*,[ ]*[\w.]+|[ ]+as[ ]+\w+)*[ ]*(?:\#.*)?$"
    r"|(?:async[ ]+)?def[ ]+\w+[ ]*\(|class[ ]+\w+[ ]*[(:]|@\w[\w.]*(?:\(.*)?$|\#!/|print\("
    r"|(?:\w+(?:,[ ]*\w+)*|\w+\[[^\]\n]*\])[ ]*=[ ]*[^=\s]|for[ ]+\w+(?:,[ ]*\w+)*[ ]+in[ ]"
    r"|(?:while|if|with)[ ][^\n]{1,200}:[ ]*$|try:)",
    re.MULTILINE | re.VERBOSE,
)
_DEFINES_ANYTHING = re.compile(r"^[ \t]*(?:async[ ]+)?(?:def|class)[ ]", re.MULTILINE)
_RETURN = re.compile(r"^([ \t]*)return\b", re.MULTILINE)
_INDENT = re.compile(r"^([ \t]*)\S", re.MULTILINE)
_FUTURE = re.compile(r"^from[ ]+__future__[ ]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """The program's text, or None and the `problem`. `span` is where the model's part stands in the answer."""

    text: str | None
    problem: str = ""
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Block:
    """A fenced block with its content at [start, end) of the text; `margin`: how far its fence is indented."""

    language: str
    start: int
    end: int
    margin: int


def find_program(answer: str, *, defines: str = "", prefix: str = "") -> Program:
    """The program in an answer, with or without its thinking in front.

    `defines` is the name that the tests call, if it is known. `prefix` is the beginning of a program that the answer
    was asked to complete: put in front of a function's body, and of a whole program for the imports and helpers in it.
    """
    final = after_thinking(answer)
    if final is None:
        return Program(None, "the thinking never closed")
    found = _fenced(final, defines, bool(prefix)) or _bare(final, bool(prefix))
    if isinstance(found, str):
        return Program(None, found)
    code = _without_margin(final[found.start : found.end], found.margin)
    offset = len(answer) - len(final)
    return Program(_complete(code, prefix, defines), "", (offset + found.start, offset + found.end))


def _fenced(text: str, defines: str, continues: bool) -> _Block | str | None:
    """The block to take, or why none is a program; None: there is no block."""
    blocks = [block for block in _blocks(text, continues) if text[block.start : block.end].strip()]
    if not blocks:
        return None
    marked = [block for block in blocks if block.language and block.language not in _OTHER_LANGUAGES]
    unmarked = [block for block in blocks if not block.language]
    if not marked and not unmarked:
        return f"the last block is {blocks[-1].language}, not Python"
    if defines:
        name = re.escape(defines)
        definition = re.compile(rf"^(?:(?:async[ ]+)?(?:def|class)[ ]+{name}\b|{name}[ ]*[:=])", re.MULTILINE)
        for block in sorted([*marked, *unmarked], key=lambda block: block.start, reverse=True):
            if definition.search(_without_margin(text[block.start : block.end], block.margin)):
                return block
    return (marked or unmarked)[-1]


def _blocks(text: str, continues: bool) -> Iterator[_Block]:
    """The fenced blocks in order, of which the first may lack its opening and the last its closing fence."""
    fences = list(_FENCE.finditer(text))
    opened: _Block | None = None
    mark = "```"
    if len(fences) % 2 and not fences[0]["info"].strip() and _begins_inside(text[: fences[0].start()], continues):
        opened = _Block("python", 0, 0, 0)
    for fence in fences:
        info, margin = fence["info"].strip(), len(fence["indent"])
        if opened is not None:
            closes = not info and fence["mark"].startswith(mark)
            if margin > opened.margin + _DEEPEST_CLOSING or not (closes or info):
                continue
            yield _ended(text, opened, fence.start(), mark)
            opened = None
            if closes:
                continue
        start = fence.start("info") if _CODE.match(info) else min(fence.end() + 1, len(text))
        opened, mark = _Block(_language(info), start, 0, margin), fence["mark"]
    if opened is not None:
        yield _ended(text, opened, len(text), mark)


def _ended(text: str, block: _Block, end: int, mark: str) -> _Block:
    """The block up to `end`, or up to a fence that stands behind its last line of code."""
    tail = _TAIL_FENCE.search(text, block.start, end) if mark.startswith("`") else None
    return _Block(block.language, block.start, tail.start() if tail else end, block.margin)


def _begins_inside(before: str, continues: bool) -> bool:
    """Whether the text in front of the first fence is code, and the fence therefore a closing one."""
    lines = before.lstrip("\n").rstrip()
    return bool(_CODE.match(lines)) or (continues and lines[:1] in (" ", "\t"))


def _language(info: str) -> str:
    """What the fence says the block is; nothing where the code begins beside the fence."""
    word = None if _CODE.match(info) else _LANGUAGE.search(info)
    return word[0].lower() if word else ""


def _bare(text: str, continues: bool) -> _Block | str:
    """A program without fences: from its first line of code, or all of it where it continues a function."""
    end = text.find("</answer>") if "</answer>" in text else len(text)
    if continues and text.strip() and text.lstrip("\n")[:1] in (" ", "\t"):
        return _Block("", 0, end, 0)
    first = _CODE.search(text)
    if first is None or first.start() >= end:
        return "no program: neither a fenced block nor a line of code" if text.strip() else "the answer is empty"
    return _Block("", first.start(), end, 0)


def _without_margin(code: str, margin: int) -> str:
    if not margin:
        return code
    return re.sub(rf"^[ \t]{{1,{margin}}}", "", code, flags=re.MULTILINE)


def _complete(code: str, prefix: str, defines: str) -> str:
    """The whole program, where the model may have been asked to go on with a `prefix`."""
    if not prefix or _FUTURE.search(code):
        return code
    body = _as_body(code)
    if body is not None:
        return prefix.rstrip() + "\n" + body
    return _closed(prefix) + "\n\n" + code


def _as_body(code: str) -> str | None:
    """The code, indented as the body of the function that is being completed; None: it stands for itself."""
    lines = code.strip("\n")
    if lines[:1] in (" ", "\t"):
        return lines
    found = _RETURN.search(lines)
    if found is None or _DEFINES_ANYTHING.search(lines):
        return None
    rest = [match[1] for match in _INDENT.finditer(lines)][1:]
    if any(not margin for margin in rest) or not rest:
        return indent(lines, "    ")
    return min(rest, key=len) + lines  # only the first line lost its indentation


def _closed(prefix: str) -> str:
    """The prefix as a program of its own: a header without a body gets one."""
    text = prefix.rstrip()
    last = text.rpartition("\n")[2]
    if not last.endswith(":"):
        return text
    return f"{text}\n{last[: len(last) - len(last.lstrip())]}    pass"
