"""Drives the engine through the samples that a run still owes, and writes what finishes the moment it does."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from types import FrameType, TracebackType

from reasoning import console
from reasoning.budget import BudgetController, Waits
from reasoning.budget.early_exit import EarlyExit, Label
from reasoning.budget.stopping import stop_rule
from reasoning.engine.base import Engine
from reasoning.files import JsonLinesWriter
from reasoning.grading import Graded, Grader
from reasoning.preflight import Plan
from reasoning.records import generation_line, share_completions, verdict_line
from reasoning.run_folder import RunFolder
from reasoning.types import FinishReason, Generation, SampleKey

STATE_EVERY_S = 1.0
STOPPING = (signal.SIGINT, signal.SIGTERM)
"""Signals by which people and schedulers end a run."""

Owed = dict[tuple[str, int], tuple[int, ...]]
"""Budgets still to be sampled, by (task id, sample)."""


def sample(plan: Plan, folder: RunFolder, start_engine: Callable[[], Engine], *, quiet: bool) -> bool:
    """Sample and grade everything that the folder does not hold yet. False: interrupted, what finished is on disk.

    The engine is started only if something is left to sample.
    """
    owed, ungraded = outstanding(plan, folder)
    done = plan.planned - sum(map(len, owed.values()))
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(folder, plan, done))
        for keys, answer in ungraded:
            recorder.grade(keys, answer)
        if owed:
            engine = start_engine()
            stack.callback(engine.close)
            interrupt = stack.enter_context(Interrupt())
            recorder.attempt = len(folder.read_manifest()["attempts"])
            budgets = controller(plan, engine, early_exit(plan, recorder.label))
            for (task_id, number), still_owed in owed.items():
                budgets.submit(task_id, number, plan.rendered[task_id], still_owed)
            progress = console.start_progress(done, plan.planned, lambda: budgets.most_steps_left, quiet=quiet)
            stack.callback(progress.close)
            _drive(budgets, engine, recorder, progress, interrupt)
            if interrupt.requested:
                return False
        recorder.finish()
    return True


def outstanding(plan: Plan, folder: RunFolder) -> tuple[Owed, list[tuple[tuple[SampleKey, ...], str]]]:
    """What a run still owes: budgets without a generation, and answers without a verdict.

    A sample that the engine failed on is owed again.
    """
    graded = folder.graded_keys()
    finished: set[SampleKey] = set()
    ungraded: list[tuple[tuple[SampleKey, ...], str]] = []
    for keys, answer in folder.read_answers():
        finished.update(keys)
        if waiting := tuple(key for key in keys if key not in graded):
            ungraded.append((waiting, answer))
    owed: Owed = {}
    for number in range(plan.config.samples):
        for task in plan.tasks:
            budgets = tuple(b for b in plan.budgets if SampleKey(task.id, number, b) not in finished)
            if budgets and plan.config.policy is not None:
                budgets = plan.budgets  # a policy needs the answers at all smaller budgets
            if budgets:
                owed[task.id, number] = budgets
    return owed, ungraded


class Recorder:
    """Writes generations, verdicts and engine states, all from the thread that drives the engine."""

    def __init__(self, folder: RunFolder, plan: Plan, done: int) -> None:
        self.done = done
        self.tokens = 0  # that the engine has generated
        self.attempt = 0  # at this run, from 1; 0: no engine was started
        self._traces = JsonLinesWriter(folder.traces)
        self._verdicts = JsonLinesWriter(folder.verdicts)
        self._states = JsonLinesWriter(folder.engine_states)
        self._grader = Grader({task.id: task for task in plan.tasks}, plan.config.grading.policy)
        self._next_state = 0.0

    def record(self, generations: Sequence[Generation]) -> None:
        """Write what finished and hand the answers to the verifiers."""
        for shared in share_completions(generations):
            self._traces.append(generation_line(shared))
            self.done += len(shared)
            if shared[0].finish_reason != FinishReason.ERROR:
                self.grade(tuple(generation.key for generation in shared), shared[0].answer_text)
        self._write(self._grader.collect())

    def label(self, task_id: str, answer: str) -> str | None:
        return self._grader.label(task_id, answer)

    def grade(self, keys: tuple[SampleKey, ...], answer: str) -> None:
        self._grader.submit(keys, answer)

    def observe(self, engine: Engine) -> None:
        """Write the state of the engine about once a second."""
        if time.monotonic() >= self._next_state:
            self.write_state(engine)

    def write_state(self, engine: Engine) -> None:
        state = engine.state()
        self._next_state = time.monotonic() + STATE_EVERY_S
        self.tokens = state.generated_tokens
        self._states.append({"attempt": self.attempt, **asdict(state)})

    def finish(self) -> None:
        """Wait for the outstanding verdicts."""
        self._write(self._grader.finish())

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._grader.close()
        for writer in (self._traces, self._verdicts, self._states):
            writer.close()

    def _write(self, graded: Sequence[Graded]) -> None:
        for keys, verdict in graded:
            for key in keys:
                self._verdicts.append(verdict_line(key, verdict))


class Interrupt:
    """Within it, the first Ctrl-C or SIGTERM asks the run to stop in good order; the second one kills the process."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._before = [signal.signal(number, self._on_signal) for number in STOPPING]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in zip(STOPPING, self._before, strict=True):
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL)
        console.note("stopping after this step; press Ctrl-C again to stop at once")


def early_exit(plan: Plan, label: Label) -> EarlyExit | None:
    """The policy of the settings, if they have one; `label` tells answers apart."""
    return None if plan.config.policy is None else EarlyExit(stop_rule(plan.config.policy), label)


def controller(plan: Plan, engine: Engine, early_exit: EarlyExit | None = None) -> BudgetController:
    """Drives `engine` by the settings of `plan`; it has no samples yet."""
    config = plan.config
    return BudgetController(
        engine,
        plan.tokenizer,
        plan.markers,
        plan.closing,
        plan.budgets,
        max_answer_tokens=plan.max_answer_tokens,
        stop_ids=plan.stop_ids,
        sampling=plan.sampling,
        seed=config.seed,
        waits=Waits(config.extension.waits, config.extension.text),
        concurrency=config.engine.max_num_seqs,
        early_exit=early_exit,
    )


def _drive(
    budgets: BudgetController,
    engine: Engine,
    recorder: Recorder,
    progress: console.Progress,
    interrupt: Interrupt,
) -> None:
    steps = 0
    while budgets.unfinished and not interrupt.requested:
        recorder.record(budgets.step())
        recorder.observe(engine)
        steps += 1
        progress.update(recorder.done, recorder.tokens, steps)
    recorder.write_state(engine)
    progress.update(recorder.done, recorder.tokens, steps)
