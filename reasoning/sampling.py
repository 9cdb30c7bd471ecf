"""Drives the engine through the samples that a run still owes, and writes what finishes the moment it does."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from types import FrameType, TracebackType

from reasoning import console
from reasoning.admission import Admission
from reasoning.budget import BudgetController, Waits
from reasoning.budget.drawing import Allocation, Draw
from reasoning.budget.early_exit import EarlyExit, Label
from reasoning.budget.policies import draws_samples
from reasoning.budget.sampling import derive_seed
from reasoning.budget.stopping import stop_rule
from reasoning.engine.base import Engine
from reasoning.files import JsonLinesWriter
from reasoning.grading import Graded, Grader
from reasoning.kv_cache import KvCache
from reasoning.online import Draws
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

    Raises:
        CacheTooSmall: the engine's cache cannot hold one request of the largest budget; nothing was sampled.
    """
    owed, ungraded = outstanding(plan, folder)
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(folder, plan, plan.planned - sum(map(len, owed.values()))))
        for keys, answer in ungraded:
            recorder.grade(keys, answer)
        draws = None if plan.drawing is None else Draws(plan.drawing, plan.rendered, recorder.label, folder)
        if draws is not None:
            recorder.done = draws.n_finished
        first = [] if draws is None else draws.first()
        if owed or first:
            engine = start_engine()
            stack.callback(engine.close)
            interrupt = stack.enter_context(Interrupt())
            recorder.attempt = len(folder.read_manifest()["attempts"])
            budgets = controller(plan, engine, early_exit(plan, recorder.label))
            for (task_id, number), still_owed in owed.items():
                budgets.submit(task_id, number, plan.rendered[task_id], still_owed)

            def submit(wanted: Iterable[tuple[str, Draw]]) -> None:
                for task_id, draw in wanted:
                    budgets.submit(task_id, draw.number, plan.rendered[task_id], (draw.budget,), draw.bar)

            submit(first)
            steps_left = (lambda: budgets.most_steps_left) if draws is None else None
            progress = console.start_progress(recorder.done, plan.planned, steps_left, quiet=quiet)
            stack.callback(progress.close)
            _drive(budgets, engine, recorder, progress, interrupt, draws, submit)
            if interrupt.requested:
                return False
        recorder.finish()
    return True


def outstanding(plan: Plan, folder: RunFolder) -> tuple[Owed, list[tuple[tuple[SampleKey, ...], str]]]:
    """What a run still owes: budgets without a generation, and answers without a verdict.

    A sample that the engine failed on is owed again. Where a policy draws the samples, `Draws` knows what is owed.
    """
    graded = folder.graded_keys()
    finished: set[SampleKey] = set()
    ungraded: list[tuple[tuple[SampleKey, ...], str]] = []
    for keys, answer in folder.read_answers():
        finished.update(keys)
        if waiting := tuple(key for key in keys if key not in graded):
            ungraded.append((waiting, answer))
    owed: Owed = {}
    for number in range(plan.config.samples if plan.drawing is None else 0):
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
        self.steps = 0  # in which it did
        self.attempt = 0  # at this run, from 1; 0: no engine was started
        self._traces = JsonLinesWriter(folder.traces)
        self._verdicts = JsonLinesWriter(folder.verdicts)
        self._states = JsonLinesWriter(folder.engine_states)
        self._steps = JsonLinesWriter(folder.steps) if plan.config.profile else None
        self._grader = Grader({task.id: task for task in plan.tasks}, plan.config.grading.policy)
        self._next_state = 0.0

    def record(self, generations: Sequence[Generation], *, wait: bool = False) -> Sequence[Graded]:
        """Write what finished, hand the answers to the verifiers, and write and return the verdicts that came.

        `wait` for a verdict if none has come.
        """
        for shared in share_completions(generations):
            self._traces.append(generation_line(shared))
            self.done += len(shared)
            if shared[0].finish_reason != FinishReason.ERROR:
                self.grade(tuple(generation.key for generation in shared), shared[0].answer_text)
        graded = self._grader.collect(wait=wait)
        self._write(graded)
        return graded

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
        self.tokens, self.steps = state.generated_tokens, state.steps
        self._states.append({"attempt": self.attempt, **asdict(state)})
        if self._steps is not None and (steps := engine.take_steps()):
            self._steps.append({"attempt": self.attempt, **steps.as_columns()})

    def finish(self) -> None:
        """Wait for the outstanding verdicts."""
        self._write(self._grader.finish())

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._grader.close()
        for writer in (self._traces, self._verdicts, self._states, self._steps):
            if writer is not None:
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
    """The policy of the settings, if they have one that stops samples; `label` tells answers apart."""
    text = plan.config.policy
    return None if text is None or draws_samples(text) else EarlyExit(stop_rule(text), label)


def controller(plan: Plan, engine: Engine, early_exit: EarlyExit | None = None) -> BudgetController:
    """Drives `engine` by the settings of `plan`; it has no samples yet."""
    config = plan.config
    admission = None  # a server does not tell its cache; requests queue there
    if "kv_cache" in engine.describe():
        admission = Admission(cache_of(engine), plan.max_model_len, is_set=plan.concurrency_is_set)
    return BudgetController(
        engine,
        plan.tokenizer,
        plan.markers,
        plan.closing,
        plan.budgets,
        max_answer_tokens=plan.max_answer_tokens,
        stop_ids=plan.stop_ids,
        sampling=plan.sampling,
        seed=_seed(plan),
        waits=Waits(config.extension.waits, config.extension.text),
        concurrency=config.engine.max_num_seqs,
        admission=admission,
        early_exit=early_exit,
    )


def _seed(plan: Plan) -> int:
    """The seed of the settings; an allocation has one of its own.

    The run that it was chosen by has the same seed, since it has the same tasks: with it the samples that told how hard
    a task is would be drawn again, and be what the choice is judged on.
    """
    seed = plan.config.seed
    return derive_seed(seed, "", 0, "allocation") if isinstance(plan.drawing, Allocation) else seed


def cache_of(engine: Engine) -> KvCache:
    return KvCache.from_json(engine.describe()["kv_cache"])


def _drive(
    budgets: BudgetController,
    engine: Engine,
    recorder: Recorder,
    progress: console.Progress,
    interrupt: Interrupt,
    draws: Draws | None,
    submit: Callable[[Iterable[tuple[str, Draw]]], None],
) -> None:
    """Step until nothing is left; `draws` may `submit` more when verdicts come, which the engine does not wait for."""
    replicas = engine.describe().get("replicas", 1)  # which step side by side
    while (budgets.unfinished or (draws is not None and draws.is_waiting)) and not interrupt.requested:
        running = budgets.unfinished > 0
        rows = budgets.step() if running else []
        graded = recorder.record(rows, wait=not running)
        if draws is not None:
            submit(draws.add(rows, graded))
        recorder.observe(engine)
        progress.update(recorder.done, recorder.tokens, recorder.steps // replicas)
    recorder.write_state(engine)
    progress.update(recorder.done, recorder.tokens, recorder.steps // replicas)
