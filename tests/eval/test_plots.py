"""The figure by what it says: its numbers, and the words and places in its SVG; never by pixels."""

import json
import struct
from dataclasses import replace
from itertools import combinations
from math import nan
from xml.etree import ElementTree

import pytest
from matplotlib.textpath import TextPath

from eval.captions import curve_caption, join_labels
from eval.labels import Box
from eval.plots import accuracy_curve
from reasoning.types import NO_LIMIT, CurvePoint

TEXT = "{http://www.w3.org/2000/svg}text"


def point(budget, accuracy, tokens, bound, **changes):
    made = CurvePoint(
        model="pocket",
        task_set="countdown",
        method="force",
        vote="none",
        budget=budget,
        n_tasks=512,
        n_samples=512,
        n_missing=0,
        accuracy=accuracy,
        low=max(0.0, accuracy - 0.04),
        high=min(1.0, accuracy + 0.04),
        band_low=max(0.0, accuracy - 0.05),
        band_high=min(1.0, accuracy + 0.05),
        interval="wilson",
        tokens_mean=tokens,
        tokens_median=tokens,
        tokens_p95=2 * tokens,
        thinking_mean=0.9 * tokens,
        answer_mean=0.1 * tokens,
        bound_share=bound,
        no_answer_share=0.0,
        escaped_share=0.0,
        looped_share=0.0,
        wrong_share=1 - accuracy,
        finished_wrong_share=0.0,
        verifier_failed_share=0.0,
    )
    return replace(made, **changes)


def changed(points, **changes):
    return [replace(one, **changes) for one in points]


THREE = [point(1_000, 0.41, 880, 0.62), point(10_000, 0.71, 4_700, 0.28), point(50_000, 0.86, 13_800, 0.09)]
BASELINE = point(0, 0.08, 22, 0.0)
SATURATED = [*THREE[:2], point(20_000, 0.73, 4_900, 0.02), point(50_000, 0.73, 4_910, 0.0)]
EIGHT = [
    point(64 << step, accuracy, tokens, bound)
    for step, (accuracy, tokens, bound) in enumerate(
        zip(
            [0.03, 0.08, 0.19, 0.38, 0.6, 0.8, 0.91, 0.94],
            [78, 140, 260, 470, 800, 1200, 1560, 1700],
            [1.0, 0.98, 0.9, 0.72, 0.5, 0.28, 0.1, 0.02],
            strict=True,
        )
    )
]
SHAPES = {
    "three budgets": [THREE],
    "baseline": [[BASELINE, *THREE]],
    "eight budgets": [EIGHT],
    "one budget": [THREE[1:2]],
    "saturated": [SATURATED],
    "all wrong": [[point(1_000, 0.0, 1_100, 1.0), point(10_000, 0.0, 10_100, 1.0)]],
    "all right": [[point(0, 1.0, 30, 0.0), point(1_000, 1.0, 300, 0.0), point(10_000, 1.0, 310, 0.0)]],
    "two models": [[BASELINE, *THREE], changed([point(0, 0.1, 20, 0.0), *SATURATED], model="after training")],
    "close baselines": [[point(0, 0.02, 20, 0.0), *THREE], [point(0, 0.03, 22, 0.0), *SATURATED]],
    "two that agree": [THREE, changed(THREE, model="an-organisation/a-very-long-name-of-a-model-7B-Instruct")],
    "no tokens at all": [[point(0, 0.0, 0.0, 0.0)]],
}


def draw(series, folder, **options):
    names = [points[0].model for points in series]
    png, svg, numbers = accuracy_curve(series, folder / "accuracy", **{"names": names} | options)
    return png, svg, json.loads(numbers.read_text("utf-8"))


def words(svg):
    """All texts of the figure; those in several lines come line by line."""
    return ["".join(text.itertext()) for text in ElementTree.parse(svg).iter(TEXT)]


def centred_texts(svg):
    """Box of every horizontal text that the figure centres on a place: the labels and the names of the ticks."""
    for text in ElementTree.parse(svg).iter(TEXT):
        style = dict(part.split(": ", 1) for part in text.attrib["style"].split("; "))
        if style.get("text-anchor") != "middle" or "rotate(-90" in text.get("transform", ""):
            continue
        words = "".join(text.itertext())
        size = float(style["font-size"].removesuffix("px"))
        width = TextPath((0, 0), words, size=size).get_extents().width
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        yield words, Box(x - width / 2, y - 0.75 * size, x + width / 2, y)


def test_files(tmp_path):
    paths = accuracy_curve([THREE], tmp_path / "new folder" / "Qwen3-0.6B", names=["pocket"])
    assert [path.name for path in paths] == ["Qwen3-0.6B.png", "Qwen3-0.6B.svg", "Qwen3-0.6B.json"]
    header = paths[0].read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", header[16:20]) == (1080,)  # 7.2 inches at 150 dots


def test_the_same_points_give_the_same_bytes(tmp_path):
    first = [path.read_bytes() for path in accuracy_curve([[BASELINE, *THREE]], tmp_path / "a", names=["a"])]
    second = [path.read_bytes() for path in accuracy_curve([[BASELINE, *THREE]], tmp_path / "b", names=["a"])]
    assert first == second


def test_the_numbers_are_those_of_the_points(tmp_path):
    *_, numbers = draw([[*THREE, BASELINE]], tmp_path, note="Temperature 1")
    (series,) = numbers["series"]
    assert [one["label"] for one in series["points"]] == ["1k", "10k", "50k"]
    assert [one["accuracy"] for one in series["points"]] == [0.41, 0.71, 0.86]
    assert [one["tokens_mean"] for one in series["points"]] == [880, 4_700, 13_800]
    assert [(one["low"], one["high"]) for one in series["points"]] == [(p.low, p.high) for p in THREE]
    assert [one["open"] for one in series["points"]] == [True, True, False]
    assert (series["name"], series["baseline"]["accuracy"]) == ("pocket", 0.08)


def test_the_words_of_the_figure(tmp_path):
    _, svg, numbers = draw([[BASELINE, *THREE]], tmp_path, note="Temperature 1, top-p 0.95")
    said = words(svg)
    for label in ("budget 1k", "10k", "50k", "62%", "28%", "9%", "no thinking: 8%", "Accuracy (%)", numbers["title"]):
        assert label in said
    assert numbers["title"] == "How often pocket solves countdown, by thinking budget"
    assert numbers["caption"] == (
        "countdown: 512 tasks × 1 sample. Label at a point: thinking budget in tokens. Band: 95% interval over "
        "tasks (Wilson). Open marker: the budget cut more than 10% of the samples. Method: force. "
        "Temperature 1, top-p 0.95."
    )
    assert numbers["caption"] in " ".join(said)


def test_the_caption_names_what_is_out_of_the_ordinary():
    uneven = curve_caption([replace(THREE[0], n_samples=500, n_missing=12), replace(THREE[1], n_tasks=510)], "")
    assert "510-512 tasks, 500-512 samples a budget. " in uneven
    assert "12 samples missing (engine errors), in no rate." in uneven
    unanimous = curve_caption(changed(THREE, n_samples=2_048, bound_share=0.1), "")
    assert "512 tasks × 4 samples. " in unanimous
    assert "Open marker" not in unanimous


def test_runs_of_one_model_are_told_apart_by_their_names(tmp_path):
    lost = changed(THREE, n_samples=0)
    _, svg, numbers = draw([THREE, lost, SATURATED], tmp_path, names=["greedy", "lost", "warm"])
    assert [one["name"] for one in numbers["series"]] == ["greedy", "warm"]
    assert {"greedy", "warm"} <= set(words(svg))
    assert numbers["title"] == "How often pocket solves countdown, by thinking budget"


def test_a_partial_run_says_so_first(tmp_path):
    _, svg, numbers = draw([THREE], tmp_path, partial=True)
    assert numbers["title"] == "PARTIAL RUN: How often pocket solves countdown, by thinking budget"
    assert any(text.startswith("PARTIAL RUN: ") for text in words(svg))


def test_baselines_within_two_points_share_a_label(tmp_path):
    lines = [[point(0, rate, 20, 0.0), *THREE] for rate in (0.08, 0.10, 0.13)]
    _, svg, _ = draw(lines, tmp_path, names=["a", "b", "c"])
    labels = [word for word in words(svg) if word.startswith("no thinking")]
    assert labels == ["no thinking: 13%", "no thinking: 10%, 8%"]


def test_ticks_are_written_as_budgets_are(tmp_path):
    _, svg, _ = draw([THREE], tmp_path)
    ticks = [word for word in words(svg) if word in ("1k", "2k", "5k", "10k", "20k")]
    assert ticks.count("2k") == ticks.count("5k") == 1


def test_budgets_that_spend_the_same_share_a_label(tmp_path):
    _, svg, _ = draw([SATURATED], tmp_path)
    assert "10k, 20k, 50k" in words(svg)
    assert "28%, 2%, 0%" in words(svg)
    assert join_labels(["0%", "0%", "0%"]) == "0%"
    assert join_labels(["8k", "16k", "32k", "64k"]) == "8k … 64k"


def test_a_budget_without_limit(tmp_path):
    _, svg, numbers = draw([[*THREE, point(NO_LIMIT, 0.9, 30_000, 0.0)]], tmp_path)
    assert "none" in words(svg)
    assert numbers["series"][0]["points"][-1]["budget"] is None


def test_several_series_are_named_at_their_ends(tmp_path):
    _, svg, numbers = draw([THREE, changed(THREE, model="after")], tmp_path)
    assert {"pocket", "after"} <= set(words(svg))
    assert numbers["title"] == "How often each model solves countdown, by thinking budget"
    assert [one["name"] for one in numbers["series"]] == ["pocket", "after"]


def test_the_ends_of_a_long_name_stay(tmp_path):
    name = "organisation/" + 20 * "very-" + "long-7B-step-1200"
    _, svg, numbers = draw([changed(THREE, model=name), changed(THREE, model=name[:-4] + "2400")], tmp_path)
    assert numbers["series"][0]["name"] == name
    assert {"long-7B-step-1200", "long-7B-step-2400"} <= set(words(svg))


def test_names_are_text_not_markup(tmp_path):
    _, svg, _ = draw([changed(THREE, model="<a> & $b^2$")], tmp_path)
    assert "How often <a> & $b^2$ solves countdown, by thinking budget" in words(svg)


def test_points_without_samples_are_left_out(tmp_path):
    lost = point(100_000, nan, nan, nan, low=nan, high=nan, n_tasks=0, n_samples=0, n_missing=512)
    _, svg, numbers = draw([[*THREE, lost]], tmp_path)
    assert "100k" not in words(svg)
    assert "512 samples missing (engine errors), in no rate." in numbers["caption"]
    assert accuracy_curve([[lost]], tmp_path / "nothing", names=["pocket"]) == []
    assert accuracy_curve([], tmp_path / "nothing", names=[]) == []
    assert not (tmp_path / "nothing.png").exists()


@pytest.mark.parametrize("shape", SHAPES)
def test_no_label_covers_another_or_leaves_the_page(tmp_path, shape):
    _, svg, _ = draw(SHAPES[shape], tmp_path)
    width, height = map(float, ElementTree.parse(svg).getroot().attrib["viewBox"].split()[2:])
    labels = list(centred_texts(svg))
    assert len(labels) > 3
    for _, box in labels:
        assert box.within(Box(0, 0, width, height))
    for (text, box), (other_text, other_box) in combinations(labels, 2):
        assert not box.overlaps(other_box), f"{text} covers {other_text}"
