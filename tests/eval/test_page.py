"""The page as HTML: what is escaped, how large it may be, and what a browser makes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from eval.examples import Example
from eval.outcomes import Outcome
from eval.page import MAX_BYTES, Page, Table, render

HOSTILE = (
    '</script><script>document.title="stolen"</script><img src=x onerror="document.title=1"></pre></details>'
    "<iframe src='https://example.org'></iframe>{{ 7 * 7 }}{% raw %}\x00\x1b[31m\u202e&amp;"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def example(text: str, **changes: object) -> Example:
    made = Example(8, Outcome.WRONG, "t1", 0, "What is 1 + 1?", text, "3", "2", "boxed", 1_000, 20, "answered", True)
    return replace(made, **changes)


def page(**changes: object) -> Page:
    made = Page(
        title="pocket on countdown",
        sentences=["pocket is right on 50 %.", "No step changes it."],
        warnings=["partial run"],
        tables=[
            Table("Accuracy by budget", ["budget", *(f"column {n}" for n in range(30))], [["8", *["1.0"] * 30]], "note")
        ],
        figures=[],
        examples=[example("thinking </think> 3")],
        facts={"Settings": {"model": "pocket"}},
        commands={"Again": "python -m reasoning.eval --out '/a b'"},
    )
    return replace(made, **changes)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_everything_is_on_the_page_and_warnings_come_before_the_numbers():
    text = Tags(render(page())).text
    order = ["pocket is right on 50 %", "1 warning", "partial run", "Accuracy by budget", "thinking </think> 3", "/a b"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_text_of_models_and_files_is_inert():
    hostile = example(HOSTILE, task_id=HOSTILE, prompt=HOSTILE, extracted=HOSTILE, reference=HOSTILE, why=HOSTILE)
    table = Table(HOSTILE, [HOSTILE], [[HOSTILE]], HOSTILE)
    html = render(
        page(
            title=HOSTILE,
            sentences=[HOSTILE],
            warnings=[HOSTILE],
            tables=[table],
            examples=[hostile],
            facts={HOSTILE: {HOSTILE: HOSTILE}},
            commands={HOSTILE: HOSTILE},
        )
    )
    found = Tags(html)
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert "{{ 7 * 7 }}" in found.text, "a template in a text is no template"
    assert not re.search(r"[\x00\x1b]", html)
    assert found.text.count('<script>document.title="stolen"</script>') > 8, "it is shown as it was written"


def test_a_page_forbids_itself_to_load_anything():
    tags = Tags(render(page())).tags
    (policy,) = [a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not [
        a for _, a in tags for name in ("src", "href") if not (a.get(name) or "data:").startswith(("data:", "#"))
    ]


def test_long_texts_are_folded_and_short_ones_shown():
    assert render(page(examples=[example("x" * 601)])).count("<details>") == 3
    assert render(page(examples=[example("x" * 600)])).count("<details>") == 2  # the problem and the settings


@pytest.mark.parametrize("letter", ["x", "<", "é"])
def test_a_page_stays_below_its_limit(letter):
    many = [example(f"start{letter * 200_000}end", sample=n) for n in range(200)]
    html = render(page(examples=many))
    assert len(html.encode()) < MAX_BYTES
    assert html.count("start") >= 200
    assert html.count("characters left out") == 200
    assert "200,008 characters" in html, "what is left out is still counted"


def test_nothing_is_left_out_where_there_is_room():
    assert "left out" not in render(page(examples=[example("x" * 500_000)]))


def browse(folder: Path, html: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What headless Chromium makes of a page: its document on stdout, console messages on stderr."""
    assert CHROMIUM is not None
    (folder / "page.html").write_text(html, "utf-8")
    quiet = "--no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-quic"
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        *quiet.split(),
        f"--user-data-dir={folder / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser's own services are not asked either
        "--enable-logging=stderr",
        "--allow-file-access-from-files",
        "--virtual-time-budget=5000",
        *options,
        "--dump-dom",
        (folder / "page.html").as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
def test_a_browser_finds_no_fault_even_with_hostile_texts(tmp_path):
    html = render(page(examples=[example(HOSTILE), example(HOSTILE * 20)], title=HOSTILE))
    assert console(browse(tmp_path, html)) == []


@needs_browser
def test_the_browser_would_tell_of_a_fault(tmp_path):
    html = render(page()).replace("</main>", '<img src="https://example.org/a.png"><script>1</script></main>')
    refused = console(browse(tmp_path, html))
    assert any("example.org" in line for line in refused)
    assert any("script" in line for line in refused)


FRAME = """<!DOCTYPE html><title>waiting</title><iframe src="inner.html" width="360" height="700"></iframe>
<script>onload = () => { const page = document.querySelector("iframe").contentDocument.documentElement;
document.title = `${page.clientWidth} of ${page.scrollWidth}`; }</script>"""


@needs_browser
@pytest.mark.parametrize("fits", [True, False])
def test_a_narrow_window_does_not_scroll_sideways(tmp_path, fits):
    html = render(page(examples=[example("x" * 590, task_id="y" * 300)]))
    wider = html.replace("overflow-x: auto", "overflow-x: visible")
    (tmp_path / "inner.html").write_text(html if fits else wider, "utf-8")
    shown = Tags(browse(tmp_path, FRAME).stdout).text
    width, needed = map(int, re.findall(r"(\d+) of (\d+)", shown)[0])
    assert 300 < width <= 360
    assert (needed <= width) is fits
