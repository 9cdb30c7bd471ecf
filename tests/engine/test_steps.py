from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from reasoning.engine.steps import Steps, StepWatch


class Scheduler:
    def __init__(self) -> None:
        self.booked: list = []

    def update_from_output(self, scheduled, result):
        self.booked.append((scheduled, result))
        return "outputs"


def plan(tokens: dict[str, int], running: Sequence[int] = (), new: Sequence[int] = ()):
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(num_computed_tokens=cached) for cached in new],
        scheduled_cached_reqs=SimpleNamespace(num_computed_tokens=list(running)),
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
    )


def test_batch_context_and_prompts_of_a_step():
    scheduler = Scheduler()
    watch = StepWatch(scheduler)
    first = plan({"a": 100, "b": 36}, new=[0, 64])
    assert scheduler.update_from_output(first, "ids") == "outputs"
    watch.note(10.0, 10.5)
    scheduler.update_from_output(plan({"a": 1, "b": 1, "c": 50}, running=[100, 100], new=[0]), "ids")
    watch.note(10.6, 10.7)
    scheduler.update_from_output(plan({"a": 1, "b": 1, "c": 1}, running=[101, 101, 50]), "ids")
    watch.note(10.7, 10.75)
    # The time of a step goes from the end of the one before, so the tenth of a second in between is in the second.
    assert watch.take() == Steps([500_000, 200_000, 50_000], [2, 3, 3], [64, 200, 252], [2, 1, 0], [136, 50, 0])
    assert len(watch.take()) == 0
    assert scheduler.booked[0] == (first, "ids")


def test_a_run_of_the_engine_that_only_fills_the_pipeline_is_no_step():
    scheduler = Scheduler()
    watch = StepWatch(scheduler)
    watch.note(1.0, 1.1)  # scheduled, nothing back yet
    scheduler.update_from_output(plan({"a": 5}, new=[0]), "ids")
    watch.note(1.1, 1.4)
    scheduler.update_from_output(plan({}), "nothing was scheduled")
    watch.note(1.4, 1.5)
    assert watch.take() == Steps([400_000], [1], [0], [1], [5])


def test_time_without_work_is_in_no_step():
    scheduler = Scheduler()
    watch = StepWatch(scheduler)
    for start in (1.0, 100.0):
        scheduler.update_from_output(plan({"a": 1}, running=[7]), "ids")
        watch.note(start, start + 0.25)
        watch.rest()
    assert watch.take().microseconds == [250_000, 250_000]
