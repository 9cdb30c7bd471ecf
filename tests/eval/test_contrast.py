"""Runs compared on the tasks that they share, and the sentences that say what is a difference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from eval.contrast import Run, compare_runs, say
from eval.curves import MISSING, GradedSample
from reasoning.types import FinishReason, SampleKey, Task


def task(name: str, reference: str = "1") -> Task:
    return Task(
        id=name, prompt=({"role": "user", "content": f"What is {name}?"},), reference=reference, verifier="math"
    )


def graded(name: str, budget: int, right: bool, sample: int = 0, status: str | None = None) -> GradedSample:
    status = status or ("correct" if right else "wrong")
    reason = FinishReason.ERROR if status == MISSING else FinishReason.ANSWERED
    return GradedSample(SampleKey(name, sample, budget), None, status, 10, 2, reason, False, False, False, False, "1")


def run(name: str, rights: dict[int, list[bool]], *, tasks: list[Task] | None = None, **settings: object) -> Run:
    """One sample a task and budget; `rights` is budget -> whether task 0, 1, 2 ... is right."""
    count = len(next(iter(rights.values())))
    own = tasks or [task(f"t{n:03d}") for n in range(count)]
    samples = [graded(own[n].id, b, right) for b, column in rights.items() for n, right in enumerate(column)]
    return Run(name, "m", "set", "forced answer", {one.id: one for one in own}, samples, {"name": name} | settings)


def test_a_difference_is_paired_by_task_and_said():
    # 3 of 40 tasks lost, 20 gained: McNemar's p = 2 P(X <= 3 | 23, 1/2) = 0.000488
    first = run("bare", {8: [n < 13 for n in range(40)]})
    second = run("boxed", {8: [n >= 3 and n < 33 for n in range(40)]})
    (contrast,) = compare_runs([first, second]).contrasts
    assert (contrast.n_tasks, contrast.reference_accuracy, contrast.accuracy) == (40, 13 / 40, 30 / 40)
    assert contrast.delta == pytest.approx(17 / 40)
    assert contrast.low < 17 / 40 < contrast.high
    assert contrast.p_value == contrast.p_holm == pytest.approx(2 * (1 + 23 + 253 + 1771) / 2**23)
    assert contrast.is_difference
    (sentence,) = say(compare_runs([first, second]))
    assert sentence.startswith("A difference: boxed is more often right at 8 (+42.5 [")
    assert sentence.endswith("points, p < 0.001) than bare.")


def test_no_difference_is_said_with_what_could_have_been_seen():
    first = run("a", {8: [n % 2 == 0 for n in range(40)]})
    second = run("b", {8: [n % 2 == 0 or n == 1 for n in range(40)]})
    (sentence,) = say(compare_runs([first, second]))
    assert sentence.startswith("No difference is shown: b against a at 8 (+2.5 [")
    detectable = compare_runs([first, second]).contrasts[0].detectable
    assert f"a true difference of {100 * detectable:.0f} points would be found four times in five" in sentence


def test_too_few_tasks_are_not_said_to_find_the_impossible():
    first = run("a", {8: [True, True]})
    second = run("b", {8: [True, False]})
    comparison = compare_runs([first, second])
    assert math.isnan(comparison.contrasts[0].detectable)
    assert "no true difference would be found four times in five, however large" in say(comparison)[0]


def test_what_could_have_been_seen_is_as_corrected_as_what_is_a_difference():
    budgets = (8, 16, 32)
    alone = compare_runs([run("a", {8: [True] * 40}), run("b", {8: [True] * 40})]).contrasts
    together = compare_runs([run(name, dict.fromkeys(budgets, [True] * 40)) for name in "ab"]).contrasts
    assert len({contrast.detectable for contrast in together}) == 1
    # 6 gains in 40 are p = 0.031, of three comparisons 7 are needed: p = 0.016
    assert 6 / 40 < alone[0].detectable < together[0].detectable
    assert together[0].detectable > 7 / 40


def test_some_budgets_may_have_too_few_tasks_to_see_anything():
    first, second = (run(name, {8: [True] * 20, 16: [True] * 20}) for name in "ab")
    few = [sample for sample in second.samples if sample.key.budget == 8 or sample.key.task_id < "t003"]
    (sentence, *_) = say(compare_runs([first, replace(second, samples=few)]))
    assert "points would be found four times in five, at some budgets none: too few tasks" in sentence


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_a_run_that_is_not_finished_is_no_difference(which):
    # What is there of such a run are its short samples, which are more often right.
    same = {"settings": {"samples": 1}}
    runs = [replace(run("a", {8: [False] * 40}), **same), replace(run("b", {8: [True] * 40}), **same)]
    assert compare_runs(runs).contrasts[0].is_difference
    assert compare_runs(runs).noise
    half = [replace(one, unfinished=number in which) for number, one in enumerate(runs)]
    comparison = compare_runs(half)
    assert not comparison.contrasts[0].is_difference
    assert not comparison.noise
    (sentence,) = say(comparison)
    who = {(0,): "a is", (1,): "b is", (0, 1): "b and a are"}[which]
    assert sentence.startswith(f"Nothing is decided between b and a: {who} not finished, and ")
    assert "So far, b against a is at 8 (+100.0 [" in sentence


def test_an_unfinished_run_leaves_the_others_decided():
    runs = [run("a", {8: [False] * 40}), run("b", {8: [True] * 40}), run("c", {8: [True] * 40})]
    first, second = say(compare_runs([*runs[:2], replace(runs[2], unfinished=True)]))
    assert first.startswith("A difference: b is more often right at 8")
    assert second.startswith("Nothing is decided between c and a: c is not finished")


def test_tasks_that_are_not_paired_are_said():
    first, second = run("a", {8: [True] * 10}), run("b", {8: [False] * 10})
    fewer = replace(second, samples=second.samples[:4])
    assert "as few as 4 are paired" in say(compare_runs([first, fewer]))[-1]
    assert "are paired" not in say(compare_runs([first, second]))[-1]


def test_many_budgets_share_one_correction():
    rights = [n < 6 for n in range(40)]  # 6 gained, none lost: p = 2 / 64 = 0.03125 at every budget
    first = run("a", {b: [False] * 40 for b in (8, 16, 32)})
    second = run("b", dict.fromkeys((8, 16, 32), rights))
    comparison = compare_runs([first, second])
    assert [c.p_value for c in comparison.contrasts] == [0.03125] * 3
    assert [c.p_holm for c in comparison.contrasts] == [0.09375] * 3
    assert not any(c.is_difference for c in comparison.contrasts)
    assert "after Holm's correction for 3 comparisons" in say(comparison)[0]


def test_only_common_tasks_are_compared_and_drawn():
    first = run("a", {8: [True] * 10})
    second = run("b", {8: [False] * 7}, tasks=[task(f"t{n:03d}") for n in range(4, 11)])
    comparison = compare_runs([first, second])
    assert (comparison.n_common, comparison.n_tasks) == (6, (10, 7))
    assert [points[0].n_tasks for points in comparison.curves] == [6, 6]
    assert comparison.contrasts[0].n_tasks == 6


def test_an_id_that_stands_for_another_task_is_not_common():
    first = run("a", {8: [True, True]}, tasks=[task("x", "1"), task("y", "2")])
    second = run("b", {8: [True, True]}, tasks=[task("x", "1"), task("y", "3")])
    assert compare_runs([first, second]).n_common == 1
    other = run("b", {8: [True]}, tasks=[task("x", "7")])
    with pytest.raises(
        ValueError, match=r"no task in common \(a: set, 2 tasks, b: set, 1 tasks; 1 ids are in all, but"
    ):
        compare_runs([first, other])


def test_a_solution_that_no_verifier_reads_may_differ():
    one, other = (replace(task("x"), meta={"numbers": [1, 2], "solution": how}) for how in ("1 + 2", "2 + 1"))
    first, second = run("a", {8: [True]}, tasks=[one]), run("b", {8: [True]}, tasks=[other])
    assert compare_runs([first, second]).n_common == 1
    second = run("b", {8: [True]}, tasks=[replace(other, meta={**other.meta, "numbers": [1, 3]})])
    with pytest.raises(ValueError, match="1 ids are in all, but"):
        compare_runs([first, second])


def test_a_prompt_may_differ():
    reworded = replace(task("x"), prompt=({"role": "user", "content": "x?"},))
    first, second = run("a", {8: [True]}, tasks=[task("x")]), run("b", {8: [True]}, tasks=[reworded])
    assert compare_runs([first, second]).n_common == 1


def test_missing_samples_are_in_no_pair():
    first = run("a", {8: [True] * 5})
    second = run("b", {8: [True] * 5})
    lost = [replace(s, status=MISSING) if s.key.task_id == "t002" else s for s in second.samples]
    comparison = compare_runs([first, replace(second, samples=lost)])
    assert (comparison.n_common, comparison.contrasts[0].n_tasks) == (5, 4)


def test_runs_without_a_common_budget_are_drawn_and_not_paired():
    comparison = compare_runs([run("a", {8: [True] * 3}), run("b", {16: [True] * 3})])
    assert (comparison.contrasts, len(comparison.curves)) == ((), 2)
    assert say(comparison) == ["b and a have no budget in common: nothing is paired, only the curves are drawn."]


def test_every_run_is_compared_with_the_first():
    runs = [run(name, {8: [True, False, True]}) for name in "abc"]
    comparison = compare_runs(runs)
    assert [(c.run, c.reference) for c in comparison.contrasts] == [("b", "a"), ("c", "a")]
    assert len(say(comparison)) == 2


def test_the_same_settings_twice_show_the_noise():
    first = replace(run("a", {8: [n < 20 for n in range(40)]}), settings={"samples": 1})
    again = replace(run("b", {8: [n < 18 for n in range(40)]}), settings={"samples": 1}, seed=1)
    # two tasks changed by 1: sqrt(2 / 2) / 40 = 2.5 points
    uncertain = "makes a run uncertain by 2.5 points at 8."
    assert say(compare_runs([first, again]))[-1] == (
        f"b is a again with the same settings and another seed: sampling alone {uncertain}"
    )
    assert say(compare_runs([first, replace(again, seed=0)]))[-1] == (
        f"b is a again with the same settings and the same seed: what does not reproduce {uncertain}"
    )
    assert compare_runs([first, replace(again, settings={"samples": 2})]).noise == {}


def test_tokens_that_nobody_counted_are_unknown():
    comparison = compare_runs([run("a", {8: [True]}), replace(run("b", {8: [True]}), counted=False)])
    assert comparison.curves[0][0].tokens_mean == 12
    assert comparison.curves[1][0].tokens_mean != comparison.curves[1][0].tokens_mean
