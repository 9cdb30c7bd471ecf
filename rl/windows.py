"""What each optimizer step sees of a generation: documents, with what the loss reads of them.

A generation serves `steps_per_generation / gradient_accumulation_steps` optimizer steps, `num_iterations` times over,
as in TRL.
"""

from __future__ import annotations

import numpy as np

from rl.generations import Generation, GenerationSettings
from rl.losses import Objective, sequence_weights
from rl.rollouts import Rollout
from rl.rows import RolloutDocument


def window(
    generation: Generation, settings: GenerationSettings, objective: Objective, step: int
) -> list[RolloutDocument]:
    """The documents of optimizer step `step` of this generation (from 0), without those whose loss is surely zero.

    Windows share out the completions in an order shuffled once a generation. Completions without an advantage carry no
    gradient, unless a KL pulls at them; truncated ones are left out where the settings mask them. Both stay in the
    denominators that `rl.losses.sequence_weights` counts them in.
    """
    order = np.random.default_rng((settings.seed, generation.number)).permutation(len(generation.rollouts))
    chosen = np.array_split(order, settings.windows)[step % settings.windows].tolist()
    masks = {index: _learned(generation.rollouts[index], settings.mask_truncated) for index in chosen}
    weights = sequence_weights(objective, [int(masks[index].sum()) for index in chosen])
    return [
        _document(generation, index, masks[index], float(weight))
        for index, weight in zip(chosen, weights, strict=True)
        if masks[index].any() and (generation.advantages[index] != 0 or objective.beta > 0)
    ]


def documents(generation: Generation) -> list[RolloutDocument]:
    """All rollouts in their order, to be scored."""
    return [
        _document(generation, index, _learned(rollout, mask_truncated=False), 0.0)
        for index, rollout in enumerate(generation.rollouts)
    ]


def _learned(rollout: Rollout, mask_truncated: bool) -> np.ndarray:
    """Bool [completion tokens]: which carry loss."""
    if mask_truncated and rollout.truncated:
        return np.zeros(len(rollout.generation.completion_ids), bool)
    return rollout.sampled


def _document(generation: Generation, index: int, learned: np.ndarray, weight: float) -> RolloutDocument:
    rollout = generation.rollouts[index]
    prompt = rollout.generation.prompt_ids
    before = np.full(len(prompt), np.nan, np.float32)
    return RolloutDocument(
        ids=np.array((*prompt, *rollout.generation.completion_ids), np.int64),
        learned=np.concatenate([np.zeros(len(prompt), bool), learned]),
        advantage=generation.advantages[index],
        weight=weight,
        engine_logps=np.concatenate([before, rollout.engine_logps]),
        old_logps=None if generation.old_logps is None else generation.old_logps[index],
        ref_logps=None if generation.ref_logps is None else generation.ref_logps[index],
    )
