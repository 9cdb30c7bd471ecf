"""A page for people to read: one self-contained HTML file, from values that know nothing of HTML.

Everything that a model or a file wrote is escaped. The page has no script, and forbids itself to load anything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.examples import Example
from reasoning.budgets import format_budget
from reasoning.files import read_json

MAX_BYTES = 2_000_000
"""No page is larger: figures come first, then whole samples, then shortened ones."""

_FOLD_ABOVE = 600
"""Characters of a text that is shown without being asked for."""

_SHORTEST = 1_000
"""Characters to which a sample may be shortened where there are many long ones."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")
"""What HTML may not contain."""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure in the page: `source` is a data URL, `words` say what is to be seen."""

    name: str
    source: str
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class Page:
    """`sentences`: the result, the first of them in large print. `facts`: settings by section."""

    title: str
    sentences: Sequence[str]
    warnings: Sequence[str]
    tables: Sequence[Table]
    figures: Sequence[Sequence[Path]]
    examples: Sequence[Example]
    facts: Mapping[str, Mapping[str, str]]
    commands: Mapping[str, str]  # what for -> what to type


def render(page: Page) -> str:
    """The page as HTML, under MAX_BYTES."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("eval", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"budget": format_budget, "clean": _clean}
    template = environment.get_template("report.html.j2")
    pictures = [picture(files) for files in page.figures]
    limit = _longest(page.examples)
    while True:
        shortened = [(example, _middle_out(example.text, limit)) for example in page.examples]
        if limit <= _SHORTEST or sum(len(text) for _, text in shortened) < MAX_BYTES:
            html = template.render(page=page, pictures=pictures, examples=_by_budget(shortened), fold_above=_FOLD_ABOVE)
            if limit <= _SHORTEST or len(html.encode()) < MAX_BYTES:
                return html
        limit = max(_SHORTEST, limit // 2)


def picture(files: Sequence[Path]) -> Picture:
    """A figure from its .png, .svg and .json."""
    _, svg, numbers = files
    words = read_json(numbers)
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode()
    return Picture(svg.stem, source, words["title"], words["caption"])


def _longest(examples: Sequence[Example]) -> int:
    return max((len(example.text) for example in examples), default=0)


def _middle_out(text: str, limit: int) -> str:
    """The beginning and the end of a text that is longer than `limit`: how it thinks and how it answers."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n\n[… {len(text) - 2 * half:,} characters left out …]\n\n{text[-half:]}"


def _clean(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _by_budget(examples: Sequence[tuple[Example, str]]) -> dict[int, list[tuple[Example, str]]]:
    groups: dict[int, list[tuple[Example, str]]] = {}
    for example, text in examples:
        groups.setdefault(example.budget, []).append((example, text))
    return groups
