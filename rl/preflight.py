"""What is tried before the first step, so that a run that cannot learn says so in its first minute."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reasoning.console import duration
from reasoning.prompts import Ids, PromptError
from reasoning.types import Task
from rl.generations import Generation, Generator
from rl.hooks import Hooks
from rl.reward_input import RewardFunction
from rl.rollouts import Rollout, RolloutSettings, Spent
from rl.update import PackedUpdate
from rl.windows import documents
from verifiers import grade
from verifiers.base import Status

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TRIAL = 2**31 - 1
"""The generation number of the trial: far from those of training, so that no seed is used twice."""

USEFUL = (0.05, 0.95)
"""Pass rates between which most groups have something to compare."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """Facts for people to read, and what is likely to go wrong."""

    facts: list[str]
    warnings: list[str]


def preflight(generator: Generator, update: PackedUpdate, hooks: Hooks, steps: int, cycle: int) -> None:
    """Say what the untrained model earns and how long the run will take, and what is likely to go wrong.

    `steps` optimizer steps are planned, `cycle` of them for each generation. The engine holds the model's weights.
    """
    settings = generator.maker.settings
    tasks = list(settings.tasks.values())[: hooks.trial_prompts]
    prompts = describe_prompts(settings, tasks[0])
    trial = try_out(generator, tasks, hooks.trial_generations, update, steps, cycle)
    for fact in (*prompts.facts, *trial.facts):
        hooks.say(fact)
    for warning in (*prompts.warnings, *check_references(tasks), *trial.warnings):
        hooks.say(f"warning: {warning}")


def check_template(tokenizer: PreTrainedTokenizerBase, task: Task) -> None:
    """Refuse a template that never begins the assistant's turn.

    Raises:
        PromptError: it renders a prompt in the same way with and without `add_generation_prompt`.
    """
    messages = [dict(message) for message in task.prompt]
    with_turn, without = (
        tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=wanted)
        for wanted in (True, False)
    )
    if with_turn == without:
        raise PromptError(
            f"the chat template of {tokenizer.name_or_path} has no generation prompt: with add_generation_prompt it "
            "renders the same text as without, so the model would go on writing the user's turn. Add "
            "`{% if add_generation_prompt %}` with the beginning of the assistant's turn to the template"
        )


def check_references(tasks: Sequence[Task]) -> list[str]:
    """Warnings where the verifier does not accept the reference answers themselves."""
    refused = []
    tried = 0
    for task in tasks:
        answer = _reference_answer(task)
        if answer is not None:
            tried += 1
            verdict = grade(task.verifier, answer, task.reference, task.meta)
            if verdict.status is not Status.CORRECT:
                refused.append(f"{task.id} ({verdict.status.value}{': ' + verdict.detail if verdict.detail else ''})")
    if not refused:
        return []
    return [
        f"{len(refused)} of {tried} reference answers earn nothing themselves, {refused[0]} for one: "
        "no model can solve these tasks"
    ]


def try_out(
    generator: Generator, tasks: Sequence[Task], samples: int, update: PackedUpdate, steps: int, cycle: int
) -> Preflight:
    """Sample tasks with the untrained model, to tell what `steps` steps, `cycle` a generation, will earn and take.

    Every process samples some tasks, as in training: with rollouts of its own it would pack other rows than the rest.
    """
    chosen, generations = generator.settings, steps / cycle
    completions = chosen.prompts * chosen.group
    spent = Spent()
    rollouts, scores = generator.graded([task.id for task in tasks], samples, TRIAL, spent)
    batch = documents(Generation(TRIAL, rollouts, [], [0.0] * len(rollouts), {}))
    update.logps(batch)  # the first pass compiles
    started = time.perf_counter()
    update.logps(batch)
    # Forward and backward are three times the work of the forward pass that was timed; what the policy thought before
    # the first of several steps, and the reference, take one such pass each.
    passes = 3 * cycle // chosen.windows + (cycle > 1) + (update.objective.beta > 0)
    update_s = passes * (time.perf_counter() - started)
    shares = completions / len(rollouts)
    # As many completions as the engines run at once take as long as the trial's few, or longer in proportion.
    at_once = generator.maker.settings.concurrency * generator.processes.count
    fewest, most = max(1.0, completions / at_once), max(1.0, shares)
    rest_s = (spent.score_s + update_s) * shares
    seconds = [spent.generate_s * times + rest_s for times in sorted((fewest, most))]
    passed = sum(one.verdict.status is Status.CORRECT for one in rollouts)
    truncated = sum(one.truncated for one in rollouts)
    lengths = [len(one.generation.completion_ids) for one in rollouts]
    facts = [
        f"trial of {len(tasks)} tasks x {samples}: {passed} of {len(rollouts)} right, "
        f"{sum(one.generation.bound for one in rollouts)} cut by the budget, {truncated} truncated, "
        f"{np.mean(lengths):.0f} tokens on average, {max(lengths)} at most",
        f"{' to '.join(f'{one:.1f}' for one in seconds)} s a generation of {completions} completions, "
        f"{' to '.join(duration(one * generations) for one in seconds)} for all {generations:.0f}",
    ]
    raised = [
        f"reward {name} failed on {count} of {len(rollouts)} completions: {message}"
        for name, (count, message) in scores.errors.items()
    ]
    equal = _equal_rewards(generator.rewards, scores.values)
    return Preflight(facts, [*raised, *equal, *_unlikely_to_learn(rollouts, passed, truncated)])


def describe_prompts(settings: RolloutSettings, task: Task) -> Preflight:
    """What the first prompt looks like as ids, and which ids end a text."""
    ids = settings.rendered[task.id].prompt_ids
    ends = ", ".join(f"{token!r} ({number})" for number, token in _tokens(settings.tokenizer, settings.stop_ids))
    facts = [f"prompt of {len(ids)} tokens; a text ends with {ends}; thinking capped at {settings.budget:,} tokens"]
    again = settings.tokenizer.encode(str(settings.tokenizer.decode(list(ids))), add_special_tokens=False)
    warnings = []
    if tuple(again) != ids:
        warnings.append(
            "the first prompt does not survive decoding and encoding; training uses the ids, never the text"
        )
    chosen = settings.sampling
    if chosen.top_p < 1 or chosen.top_k or chosen.min_p:
        warnings.append(
            f"rollouts leave tokens out (top_p {chosen.top_p:g}, top_k {chosen.top_k}, min_p {chosen.min_p:g}): "
            "the engine's probabilities are then larger than the trainer's, and the importance ratios are off"
        )
    return Preflight(facts, warnings)


def _reference_answer(task: Task) -> str | None:
    """A text that states the reference as an answer, where one can be made."""
    if task.verifier == "countdown":
        return task.meta.get("solution")
    return f"\\boxed{{{task.reference}}}" if task.verifier in ("math", "numeric") else None


def _equal_rewards(rewards: Mapping[str, RewardFunction], values: np.ndarray) -> list[str]:
    found = []
    for name, column in zip(rewards, values.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) == 0:
            found.append(
                f"reward {name} gave no value for any of {len(column)} completions: nothing can be learnt from it"
            )
        elif np.ptp(known) == 0:
            found.append(
                f"reward {name} was {known[0]:g} for all {len(known)} completions: nothing can be learnt from a reward "
                "that is always equal"
            )
    return found


def _unlikely_to_learn(rollouts: Sequence[Rollout], passed: int, truncated: int) -> list[str]:
    found = []
    rate = passed / len(rollouts)
    if not USEFUL[0] <= rate <= USEFUL[1]:
        direction = "easier tasks or a larger budget" if rate < USEFUL[0] else "harder tasks or a smaller budget"
        found.append(f"the model solves {rate:.0%} of its attempts, so most groups teach nothing; try {direction}")
    if truncated > len(rollouts) / 2:
        found.append(f"{truncated} of {len(rollouts)} completions never end by themselves; raise max_answer_tokens")
    return found


def _tokens(tokenizer: PreTrainedTokenizerBase, ids: Ids) -> list[tuple[int, str]]:
    return [(number, str(tokenizer.convert_ids_to_tokens(number))) for number in ids]
