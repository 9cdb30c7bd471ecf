"""Every figure of a run: drawn where its data exist, and its numbers those of plain counting."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from eval.allocation import MapPoint
from eval.contrast import compare_runs
from eval.contrast_plots import difference_figure
from eval.cost_plots import accuracy_by_seconds, mean_seconds, policy_figure
from eval.curves import MISSING, GradedSample
from eval.figure import Words
from eval.gallery import draw_run
from eval.labels import Box
from eval.parallel_plots import label_place, parallel_heat_map, samples_curve, sequential_or_parallel
from eval.policies import parse_policy
from eval.results import Results, build
from eval.sample_plots import outcome_mix, token_use
from reasoning.types import NO_LIMIT, FinishReason, SampleKey
from tests.eval.test_contrast import run
from tests.eval.test_plots import centred_texts, words

RUN = {"model": "m", "task_set": "t", "method": "forced answer", "seed": 0}


def sample(task: int, number: int, budget: int) -> GradedSample:
    """Thinks for 20, 40 ... tokens; right if it may think to its end, and by luck else."""
    wanted = 20 * (1 + (task + number) % 5)
    bound = wanted > budget
    right = not bound or (task + 3 * number) % 7 == 0
    return GradedSample(
        SampleKey(f"t{task:02d}", number, budget),
        None,
        "correct" if right else "wrong",
        min(wanted, budget),
        5,
        FinishReason.ANSWERED,
        bound,
        bound,
        False,
        False,
        "= reference" if right else str(number % 2),
        injected_thinking=1,
        injected_answer=2,
        seconds=0.1 * min(wanted, budget) + 0.5,
    )


def graded(samples: int = 4, budgets: tuple[int, ...] = (0, 30, 60, 120)) -> list[GradedSample]:
    return [sample(task, number, b) for b in budgets for task in range(12) for number in range(samples)]


def built(samples: list[GradedSample], planned: int | None = None, *policies: str) -> Results:
    return build(samples, RUN, planned or len(samples), (), 0, {}, list(map(parse_policy, policies)))


def numbers(files: list[Path]) -> dict:
    png, svg, data = files
    assert png.read_bytes().startswith(b"\x89PNG")
    width, height = 518.4, 5000
    labels = list(centred_texts(svg))
    for _, box in labels:
        assert box.within(Box(0, 0, width, height))
    for (text, box), (other_text, other) in combinations(labels, 2):
        assert not box.grown(-0.5).overlaps(other), f"{text} covers {other_text}"
    return json.loads(data.read_text("utf-8"))


def test_outcomes_are_counts_and_name_what_did_not_occur(tmp_path):
    samples = graded()
    lost = [replace(s, status=MISSING) if s.key.sample == 0 and s.key.budget == 30 else s for s in samples]
    found = json.loads(outcome_mix(lost, tmp_path / "o", note="")[2].read_text())
    assert [row["label"] for row in found["budgets"]] == ["0", "30", "60", "120"]
    right = sum(s.status == "correct" for s in lost if s.key.budget == 30)
    assert found["budgets"][1]["counts"] == {
        "correct": right,
        "wrong": 36 - right,
        "no answer": 0,
        "cut, no answer": 0,
        "verifier failed": 0,
        "missing": 12,
    }
    said = words(tmp_path / "o.svg")
    assert {"missing (12)", "verifier failed (0)"} <= set(said)


def test_tokens_add_up_to_what_was_spent(tmp_path):
    samples = graded()
    found = json.loads(token_use(samples, tmp_path / "t", note="")[2].read_text())
    for row in found["budgets"]:
        own = [s.spent_tokens for s in samples if s.key.budget == row["budget"]]
        assert sum(row["mean_tokens"].values()) == pytest.approx(sum(own) / len(own))
        assert (row["spent_quantiles"][0], row["spent_quantiles"][-1]) == (min(own), max(own))
    assert found["budgets"][3]["mean_tokens"]["injected"] == 3
    assert token_use([replace(s, thinking_tokens=0, answer_tokens=0) for s in samples], tmp_path / "n", note="") == []


def test_seconds_are_means_over_samples_that_exist(tmp_path):
    samples = graded()
    assert mean_seconds([replace(samples[0], seconds=4.0), replace(samples[0], seconds=None)]) == {0: 4.0}
    assert mean_seconds([replace(samples[0], status=MISSING)]) == {}
    results = built(samples)
    found = numbers(accuracy_by_seconds(results.points, samples, tmp_path / "s", device="a GPU", note=""))
    assert [row["label"] for row in found["points"]] == ["0", "30", "60", "120"]
    assert found["points"][0]["seconds"] == pytest.approx(0.5)
    assert "On a GPU." in found["caption"]
    unknown = [replace(s, seconds=None) for s in samples]
    assert accuracy_by_seconds(results.points, unknown, tmp_path / "n", device="", note="") == []


def test_sequential_against_parallel(tmp_path):
    results = built(graded())
    heat = numbers(parallel_heat_map(results.parallel, tmp_path / "h", note=""))
    assert [(cell["label"], cell["votes"]) for cell in heat["cells"]] == [
        (label, k) for label in ("30", "60", "120") for k in (1, 2, 4)
    ]
    curve = numbers(sequential_or_parallel(results.points, results.parallel, tmp_path / "p", note=""))
    assert curve["cells"] == heat["cells"]
    assert {"one sample, longer", "majority of 4 at", "no thinking: 15%"} & set(words(tmp_path / "p.svg"))
    assert heat["cells"][-1]["tokens_mean"] == pytest.approx(
        4 * sum(s.spent_tokens for s in graded() if s.key.budget == 120) / 48
    )


def test_a_line_of_equal_cost_is_drawn_where_it_can_be_named():
    tokens = np.outer([1, 2, 4], [77, 219])  # votes by budgets: between one vote and two it costs 109 to 310
    cost = np.log10(tokens)
    assert label_place(cost, 100) is None
    x, edge = label_place(cost, 300) or (0, 0)
    assert edge == 2
    assert x == pytest.approx(0.5 + np.log(300 / (77 * 8**0.5)) / np.log(219 / 77))
    assert label_place(cost, 10) is label_place(cost, 10_000) is None


def test_a_caption_has_no_gap_where_a_sentence_is_empty():
    assert Words("t", f"One. {''} Two. {''}").caption == "One. Two."


def test_few_samples_have_no_map(tmp_path):
    results = built(graded(samples=2))
    assert results.parallel
    assert parallel_heat_map(results.parallel, tmp_path / "h", note="") == []
    assert sequential_or_parallel(results.points, results.parallel, tmp_path / "p", note="") == []
    assert samples_curve(results.points, tmp_path / "s", note="") == []
    assert parallel_heat_map([], tmp_path / "h", note="") == []


def test_pass_and_majority_by_samples(tmp_path):
    results = built(graded(samples=8, budgets=(30,)))
    found = numbers(samples_curve(results.points, tmp_path / "s", note=""))
    assert found["pass_at"] == results.points[-1].pass_at
    assert list(found["majority_at"]) == ["1", "2", "4", "8"]
    assert f"pass@k: {100 * found['pass_at']['8']:.0f}%" in words(tmp_path / "s.svg")


def test_policies_beside_the_plain_curves(tmp_path):
    results = built(graded(), None, "never", "agree:2", "vote:2")
    found = numbers(policy_figure(results.policies, results.points, results.parallel, tmp_path / "p", note=""))
    assert [policy["policy"] for policy in found["policies"]] == ["never", "agree:2", "vote:2"]
    assert list(found["plain"]) == ["hard caps", "majority of k at 120"]
    assert [row["tokens"] for row in found["plain"]["hard caps"]] == [p.tokens_mean for p in results.points[1:]]
    assert policy_figure([], results.points, results.parallel, tmp_path / "p", note="") == []


def test_differences_to_the_first_run(tmp_path):
    first = run("first", {8: [n < 13 for n in range(40)], NO_LIMIT: [True] * 40})
    second = run("second", {8: [n < 33 for n in range(40)], NO_LIMIT: [True] * 40})
    found = numbers(difference_figure(compare_runs([first, second]), tmp_path / "d"))
    assert [(row["budget"], row["is_difference"]) for row in found["contrasts"]] == [(8, True), (None, False)]
    assert found["contrasts"][0]["delta"] == pytest.approx(0.5)
    unpaired = compare_runs([first, run("third", {16: [True] * 40})])
    assert difference_figure(unpaired, tmp_path / "n") == []


def test_a_run_has_the_figures_that_it_has_data_for(tmp_path):
    def names(results: Results, samples: list[GradedSample]) -> list[str]:
        drawn = draw_run(results, samples, tmp_path, name="m", note="Temperature 1.", device="cpu")
        assert sorted(path for files in drawn for path in files) == sorted(tmp_path.iterdir()), "no old figure stays"
        return [files[0].stem for files in drawn]

    samples = graded()
    assert names(built(samples, 500, "never"), samples) == [
        "accuracy", "outcomes", "tokens", "seconds", "parallel", "heatmap", "samples", "policies",
    ]  # fmt: skip
    assert "PARTIAL RUN." in json.loads((tmp_path / "heatmap.json").read_text())["caption"]
    few = [replace(s, seconds=None) for s in graded(samples=1, budgets=(30,))]
    assert names(built(few), few) == ["accuracy", "outcomes", "tokens"]
    lost = [replace(s, status=MISSING) for s in few]
    assert names(built(lost), lost) == []


def test_many_budgets_and_samples_stay_legible(tmp_path):
    cells = [
        MapPoint(
            50 << b, 1 << v, 100, 0.05 * (b + v) + 0.1, 0.1, 0.9, 0.06 * (b + v) + 0.1, 100.0 * (1 << (b + v)), 0.4
        )
        for b in range(8)
        for v in range(6)
    ]
    assert len(numbers(parallel_heat_map(cells, tmp_path / "h", note=""))["cells"]) == 48
    sequential_or_parallel([], cells, tmp_path / "p", note="")
