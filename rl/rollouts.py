"""Groups of completions from the evaluation's own engine and budget controller, graded while others still generate.

What is trained is what is measured: the same prompts, think markers, forced closings, seeds and verifiers. The ids that
the engine sampled go into the loss as they are; text is never split into tokens again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from reasoning.budget import BudgetController, Sampling, Waits
from reasoning.budget.sampling import derive_seed
from reasoning.engine.base import Engine, EngineError
from reasoning.grading import Grader
from reasoning.prompts import Closing, Ids, Rendered, ThinkMarkers
from reasoning.records import generation_line, generations_of, verdict_line, verdict_of
from reasoning.types import FinishReason, Generation, Task
from rl.reward_input import ended
from verifiers.base import Verdict

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Interrupted(Exception):
    """The user asked to stop while completions were being made."""


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How completions are made: the facts of an evaluation's plan at one budget."""

    tasks: Mapping[str, Task]
    rendered: Mapping[str, Rendered]
    tokenizer: PreTrainedTokenizerBase
    markers: ThinkMarkers
    closing: Closing
    stop_ids: Ids
    sampling: Sampling
    budget: int
    max_answer_tokens: int
    concurrency: int
    seed: int
    policy: str = "reward"  # what counts as the same mathematical answer

    @property
    def max_completion_length(self) -> int:
        """Tokens of the longest completion that the loss can see: thinking, what closes it, and the answer."""
        closing = self.closing.ids(self.tokenizer, self.markers)
        return self.budget + max(len(closing), len(self.markers.close_ids)) + self.max_answer_tokens

    @property
    def longest_document(self) -> int:
        """Tokens of the longest prompt and the longest completion."""
        return max(len(one.prompt_ids) for one in self.rendered.values()) + self.max_completion_length


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion, with the engine's log-probabilities of its ids, and its verdict."""

    generation: Generation
    verdict: Verdict

    @property
    def task_id(self) -> str:
        return self.generation.key.task_id

    @property
    def truncated(self) -> bool:
        """The model did not end the text itself: its answer ran into the cap, or there was none."""
        return not ended(self.generation)

    @property
    def sampled(self) -> np.ndarray:
        """Bool [completion tokens]: True where the model chose the token, False where the harness put it."""
        mask = np.ones(len(self.generation.completion_ids), bool)
        for start, end in self.generation.injected:
            mask[start:end] = False
        return mask

    @property
    def engine_logps(self) -> np.ndarray:
        """Float32 [completion tokens], NaN where the harness put the token or the engine gave none."""
        return np.array(self.generation.logprobs, np.float32)

    def line(self) -> dict[str, Any]:
        """As JSON holds it."""
        logps = [None if isnan(value) else value for value in self.generation.logprobs]
        key = self.generation.key
        return {
            "generation": generation_line([self.generation]),
            "verdict": verdict_line(key, self.verdict),
            "engine_logps": None if all(value is None for value in logps) else logps,
        }

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Rollout:
        """What `line` wrote."""
        [generation] = generations_of(line["generation"])
        stored = line["engine_logps"] or [None] * len(generation.completion_ids)
        logprobs = tuple(nan if value is None else value for value in stored)
        return cls(replace(generation, logprobs=logprobs), verdict_of(line["verdict"])[1])


@dataclass(slots=True)
class Spent:
    """Seconds and tokens of making rollouts. `score_s` is what grading took after the last completion was there,
    and the rewards."""

    generate_s: float = 0.0
    score_s: float = 0.0
    generated_tokens: int = 0

    def add(self, parts: Sequence[Spent]) -> None:
        """What processes spent side by side: the tokens of all, the time of the slowest."""
        self.generate_s += max(part.generate_s for part in parts)
        self.score_s += max(part.score_s for part in parts)
        self.generated_tokens += sum(part.generated_tokens for part in parts)


@dataclass(frozen=True, slots=True)
class RolloutMaker:
    """Makes groups of rollouts with one engine."""

    engine: Engine
    settings: RolloutSettings
    interrupted: Callable[[], bool] = field(default=lambda: False)

    def make(self, task_ids: Sequence[str], group: int, generation: int, spent: Spent) -> list[Rollout]:
        """`group` completions of every task, those of a task side by side, in the order of `task_ids`.

        Every random number follows from (seed, `generation`, task, number in the group), not from what else is in the
        batch. `spent` is added to.

        Raises:
            Interrupted: the user asked to stop.
            EngineError: the engine died, or failed on a completion.
        """
        started = time.perf_counter()
        controller = self._controller(generation)
        grader = Grader(self.settings.tasks, self.settings.policy, fair=False)
        try:
            for task_id in task_ids:
                for number in range(group):
                    controller.submit(task_id, number, self.settings.rendered[task_id])
            made = self._drive(controller, grader)
            spent.generate_s += time.perf_counter() - started
            started = time.perf_counter()
            verdicts = {keys[0]: verdict for keys, verdict in grader.finish()} | made.verdicts
            spent.score_s += time.perf_counter() - started
        finally:
            grader.close()
            controller.abort()
        spent.generated_tokens += sum(one.decoded_tokens for one in made.generations.values())
        order = [(task_id, number) for task_id in task_ids for number in range(group)]
        generations = [made.generations[key] for key in order]
        return [Rollout(one, verdicts[one.key]) for one in generations]

    def _controller(self, generation: int) -> BudgetController:
        chosen = self.settings
        return BudgetController(
            self.engine,
            chosen.tokenizer,
            chosen.markers,
            chosen.closing,
            (chosen.budget,),
            max_answer_tokens=chosen.max_answer_tokens,
            stop_ids=chosen.stop_ids,
            sampling=chosen.sampling,
            seed=derive_seed(chosen.seed, "generation", generation, "rollouts"),
            waits=Waits(),
            concurrency=chosen.concurrency,
            logprobs=True,
        )

    def _drive(self, controller: BudgetController, grader: Grader) -> _Made:
        made = _Made()
        while controller.unfinished:
            if self.interrupted():
                raise Interrupted
            for one in controller.step():
                if one.finish_reason is FinishReason.ERROR:
                    raise EngineError(f"the engine failed on a completion of task {one.key.task_id}: {one.error}")
                made.generations[one.key.task_id, one.key.sample] = one
                grader.submit((one.key,), one.answer_text)
            made.verdicts |= {keys[0]: verdict for keys, verdict in grader.collect()}
        return made


@dataclass(slots=True)
class _Made:
    generations: dict[tuple[str, int], Generation] = field(default_factory=dict)
    verdicts: dict[Any, Verdict] = field(default_factory=dict)
