"""report.html, as a run leaves it: what a reader needs, and nothing that a model wrote can do harm."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from reasoning import report
from reasoning.files import write_json_lines
from reasoning.run_folder import WRITTEN
from tests.end_to_end.conftest import Outcome, lines, results
from tests.end_to_end.scripted import ROOT
from tests.eval.test_page import HOSTILE, Tags, browse, console, needs_browser

Run = Callable[..., Outcome]


def text_of(folder: Path) -> str:
    return " ".join(Tags((folder / "report.html").read_text("utf-8")).text.split())


def test_the_report_says_what_a_reader_needs(folder):
    text, last = text_of(folder), results(folder)["points"][-1]
    interval = f"[95 % interval {100 * last['low']:.1f} to {100 * last['high']:.1f}]"
    headline = f"tiny is right on {100 * last['accuracy']:.1f} % of countdown {interval} with no limit on its thinking"
    at = text.index(headline)
    after = ["read before the numbers", "no answer:", "Accuracy by budget", "More figures", "Samples to read"]
    for words in (*after, "Commands", "Settings, every default filled in"):
        at = text.index(words, at)
    assert "Make this run again" in text and "python -m reasoning.eval --model" in text
    assert "OTHER_RUN" in text
    assert "sampling.temperature1.0" in text and "data_sha256" in text
    assert all(f"Budget {label} " in text for label in ("0", "8", "16", "none"))
    assert {"correct", "wrong", "no answer"} <= set(re.findall(r"(correct|wrong|no answer) countdown-", text))


def test_a_run_leaves_nothing_that_clean_does_not_know(folder, tmp_path, run: Run):
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    assert run([str(folder), str(again), "--policy", "never"], report.main).code == 0
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left - set(WRITTEN) == {"manifest.json"}


def test_the_report_of_a_partial_run_says_so_first(folder, run: Run):
    stored = lines(folder / "traces.jsonl")
    write_json_lines(folder / "traces.jsonl", stored[: len(stored) // 2])
    assert run([str(folder)], report.main).code == 0
    text = text_of(folder)
    assert text.index("So far, tiny is right on") < text.index("partial run: ") < text.index("Accuracy by budget")


def test_a_run_without_a_result_has_a_report(folder, run: Run):
    write_json_lines(folder / "traces.jsonl", [])
    assert run([str(folder)], report.main).code == 0
    assert "This run has no result yet: no sample is graded." in text_of(folder)
    assert not list((folder / "plots").iterdir()), "figures of an earlier state are gone"


def test_a_failure_that_was_drawn_again_is_not_shown(folder, run: Run):
    stored = lines(folder / "traces.jsonl")
    failed = [trace | {"finish_reason": "error", "error": "out of blocks"} for trace in stored]
    write_json_lines(folder / "traces.jsonl", [*failed, *stored])
    assert run([str(folder)], report.main).code == 0
    assert "out of blocks" not in text_of(folder)


def hostile(folder: Path) -> None:
    stored = lines(folder / "traces.jsonl")
    write_json_lines(folder / "traces.jsonl", [trace | {"text": HOSTILE * 3} for trace in stored])
    graded = lines(folder / "verdicts.jsonl")
    write_json_lines(folder / "verdicts.jsonl", [verdict | {"extracted": HOSTILE} for verdict in graded])


def test_what_a_model_wrote_is_inert(folder, run: Run):
    hostile(folder)
    assert run([str(folder)], report.main).code == 0
    found = Tags((folder / "report.html").read_text("utf-8"))
    sources = [attributes["src"] for tag, attributes in found.tags if tag == "img"]
    assert sources and all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert not {"script", "iframe", "object"} & {tag for tag, _ in found.tags}
    assert "onerror=" in found.text and "{{ 7 * 7 }}" in found.text


@needs_browser
def test_a_browser_shows_the_report_without_a_fault(folder, tmp_path, run: Run):
    hostile(folder)
    assert run([str(folder)], report.main).code == 0
    net = tmp_path / "net.json"
    done = browse(tmp_path, (folder / "report.html").read_text("utf-8"), f"--log-net-log={net}")
    assert console(done) == []
    assert "<title>tiny on countdown</title>" in done.stdout, "no text became the title"
    requested = set(re.findall(r'"url":"(https?:[^"]+)"', net.read_text("utf-8")))
    assert not [url for url in requested if "example.org" in url]


def test_the_lines_of_the_readme_load_the_samples(folder, tmp_path):
    block = next(
        b for b in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S) if "traces" in b
    )
    assert len([line for line in block.splitlines() if line]) == 3
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(folder)
    code = f"{block}\nprint(len(samples), sorted(samples.status.unique()), round(samples.thinking_tokens.mean(), 2))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    rows = [(t, budget) for t in lines(folder / "traces.jsonl") for budget in t["budgets"]]
    statuses = sorted({verdict["status"] for verdict in lines(folder / "verdicts.jsonl")})
    mean = round(sum(trace["thinking_tokens"] for trace, _ in rows) / len(rows), 2)
    assert done.stdout.strip() == f"128 {statuses} {mean}"
