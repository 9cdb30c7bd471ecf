"""Runs whose policy draws the samples of a task: which policy it is, and what it still owes to decide every task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from eval.curves import MISSING, GradedSample
from reasoning.budget.drawing import (
    Adaptive,
    AdaptiveShare,
    Allocation,
    BetaStop,
    Drawn,
    DrawPolicy,
    DrawRule,
    Filter,
    owed_draws,
)
from reasoning.budget.policies import ADAPTIVE, draws_samples, read_online
from reasoning.budgets import json_budget
from reasoning.eval_config import EvalConfig
from reasoning.types import NO_LIMIT


def stored_policy(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> DrawPolicy | None:
    """The policy that a stored run was drawn by, or None."""
    text = config.get("policy")
    if text is None or not draws_samples(text):
        return None
    if "allocation" in manifest:
        cells = manifest["allocation"].items()
        return Allocation({task_id: (NO_LIMIT if b is None else b, votes) for task_id, (b, votes) in cells})
    name, values = read_online(text)
    return policy_by_name(name, values, EvalConfig.model_validate(config).budgets[-1], config["samples"])


def describe_allocation(policy: DrawPolicy | None) -> dict[str, list[int | None]] | None:
    """What a manifest keeps of an allocation: task id -> budget and samples. None: the policy is none."""
    if not isinstance(policy, Allocation):
        return None
    return {task_id: [json_budget(budget), votes] for task_id, (budget, votes) in policy.cells.items()}


def policy_by_name(name: str, values: Mapping[str, Any], budget: int, samples: int) -> DrawPolicy:
    """A policy that needs no allocation, by its name and arguments."""
    if name in ADAPTIVE:
        rule: DrawRule = AdaptiveShare(values["share"]) if name == "asc" else BetaStop(values["p"])
        return Adaptive(rule, budget, samples)
    return Filter(values["keep"], values["warmup"], budget, samples)


def owed_samples(policy: DrawPolicy, tasks: Iterable[str], samples: Iterable[GradedSample]) -> dict[str, int]:
    """How many samples each undecided task still owes, at least."""
    finished: defaultdict[str, dict[int, Drawn]] = defaultdict(dict)
    for sample in samples:
        if sample.status != MISSING:
            finished[sample.key.task_id][sample.key.sample] = Drawn(sample.label, sample.thinking_confidence)
    owed = {task_id: len(owed_draws(policy, task_id, finished[task_id])) for task_id in tasks}
    return {task_id: count for task_id, count in owed.items() if count}
