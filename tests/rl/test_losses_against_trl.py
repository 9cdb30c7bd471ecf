"""The packed loss and its gradients equal those of TRL's own trainer on the same rollouts, in float32."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from reasoning.config import ConfigError
from rl.advantages import Advantages, group_advantages
from rl.attention import of_row
from rl.coldstart import ModelShape, build_model
from rl.logprobs import token_scores
from rl.losses import Objective, PackedTokens, objective_from, packed_loss, sequence_weights, summarise
from rl.packing import IGNORE, Document, pack
from rl.vocabulary import VOCABULARY_SIZE, build_tokenizer

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)
GROUP = 4
MICRO_BATCH = 4
MICRO_BATCHES = 3


@dataclass(frozen=True)
class Rollout:
    prompt: list[int]
    completion: list[int]
    mask: list[int]
    engine_logps: list[float | None]
    reward: float | None


def make_rollouts(masked_whole: bool = False) -> list[Rollout]:
    """Three groups of four: uneven lengths, one token alone, masked tokens, a missing reward, a dead group."""
    rng = np.random.default_rng(5)
    lengths = [7, 1, 12, 4, 9, 3, 16, 5, 6, 2, 11, 8]
    rewards = [1.0, 0.0, 0.0, 1.0, 0.2, None, 0.9, 0.4, 0.5, 0.5, 0.5, 0.5]
    prompts = [rng.integers(20, 800, size).tolist() for size in (5, 3, 8)]
    rollouts = []
    for index, (length, reward) in enumerate(zip(lengths, rewards, strict=True)):
        mask = [1] * length
        if length > 8:
            mask[2:5] = [0, 0, 0]  # put there by the environment, not sampled
        if masked_whole and index == 4:
            mask = [0] * length
        # around the log-probability of a random model, so that ratios lie on both sides of every bound
        engine: list[float | None] = (-math.log(VOCABULARY_SIZE) + rng.normal(0, 0.6, length)).tolist()
        if index == 3:
            engine[1] = None
        completion = rng.integers(20, 800, length).tolist()
        rollouts.append(Rollout(prompts[index // GROUP], completion, mask, engine, reward))
    return rollouts


def trl_trainer(folder: Path, rollouts: list[Rollout], settings: dict[str, Any]) -> GRPOTrainer:
    """Stock TRL, given the rollouts by its own `rollout_func`; as with vLLM when it is to correct for the engine."""
    settings = {"vllm_importance_sampling_correction": False, **settings}
    args = GRPOConfig(
        output_dir=str(folder / "out"),
        use_cpu=True,
        bf16=False,
        report_to=[],
        gradient_checkpointing=False,
        per_device_train_batch_size=MICRO_BATCH,
        gradient_accumulation_steps=MICRO_BATCHES,
        steps_per_generation=MICRO_BATCHES,
        num_generations=GROUP,
        num_iterations=2,  # so that the scores of the policy that generated are kept
        max_completion_length=16,
        temperature=0.8,
        **settings,
    )

    def rollout_func(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        assert len(prompts) == len(rollouts)
        return {
            "prompt_ids": [rollout.prompt for rollout in rollouts],
            "completion_ids": [rollout.completion for rollout in rollouts],
            "logprobs": [rollout.engine_logps for rollout in rollouts],
            "env_mask": [rollout.mask for rollout in rollouts],
            "outcome": [rollout.reward for rollout in rollouts],
        }

    def outcome_reward(outcome: list[float | None], **_: Any) -> list[float | None]:
        return outcome

    trainer = GRPOTrainer(
        model=str(folder / "model"),
        reward_funcs=outcome_reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["a", "b", "c"]}),
        processing_class=build_tokenizer(512),
        rollout_func=rollout_func,
    )
    trainer.use_vllm = trainer.vllm_importance_sampling_correction
    trainer._last_loaded_step = 0  # no engine to push weights to
    trainer.current_gradient_accumulation_steps = MICRO_BATCHES
    return trainer


@dataclass
class Reference:
    """What TRL made of the rollouts: their order, their advantages, the loss and its gradients."""

    objective: Objective
    order: list[int]
    advantages: dict[int, float]
    loss: float
    gradients: dict[str, Tensor]


def nudge(model: torch.nn.Module, seed: int, size: float) -> None:
    """Move the weights, the same way every time: the policy after some updates."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(size * torch.randn(weight.shape, generator=generator))


def by_trl(folder: Path, rollouts: list[Rollout], settings: dict[str, Any], step: float) -> Reference:
    trainer = trl_trainer(folder, rollouts, settings)
    if trainer.ref_model is not None:
        nudge(trainer.ref_model, 1, 0.02)
    trainer.model.train()
    trainer._prepare_inputs([{"prompt": name} for name in "abc" for _ in range(GROUP)])
    nudge(trainer.model, 2, step)
    index_of = {tuple(rollout.completion): index for index, rollout in enumerate(rollouts)}
    order: list[int] = []
    advantages: dict[int, float] = {}
    loss = 0.0
    for batch in trainer._buffered_inputs or []:
        for ids, mask, advantage in zip(
            batch["completion_ids"], batch["completion_mask"], batch["advantages"], strict=True
        ):
            order.append(index_of[tuple(ids[mask.bool()].tolist())])
            advantages[order[-1]] = float(advantage)
        part = trainer.compute_loss(trainer.model, batch)
        part.backward()
        loss += part.item()
    gradients = {name: weight.grad.clone() for name, weight in trainer.model.named_parameters()}
    return Reference(objective_from(trainer.args), order, advantages, loss, gradients)


@dataclass
class Row:
    """A packed row, the rollouts in it, and where the scores of their tokens are."""

    packed: dict[str, Tensor]
    members: list[int]
    engine_logps: Tensor


def pack_rollouts(rollouts: list[Rollout], members: list[int]) -> Row:
    documents, engine = [], []
    for rollout in (rollouts[index] for index in members):
        taught = np.array([False] * len(rollout.prompt) + [bool(bit) for bit in rollout.mask])
        documents.append(Document(np.array(rollout.prompt + rollout.completion), taught))
        known = [math.nan if value is None else value for value in rollout.engine_logps]
        engine += [math.nan] * (len(rollout.prompt) - 1) + known + [math.nan]
    row = pack(documents, sum(len(document.ids) for document in documents), len(documents) + 2)
    fields = ("ids", "labels", "positions", "cu_seqlens")
    packed = {name: torch.from_numpy(getattr(row, name)) for name in fields}
    return Row(packed, members, torch.tensor(engine))


def scores(model: Any, row: Row, temperature: float) -> Tensor:
    inputs = of_row(row.packed["ids"], row.packed["positions"], row.packed["cu_seqlens"], 64)
    hidden = model.model(**inputs).last_hidden_state[0]
    labels = row.packed["labels"]
    return token_scores(hidden, model.lm_head.weight, labels, temperature=temperature, chunk_logits=7 * 4096).logps


def packed_model(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder / "model", attn_implementation="packed").train()


def our_advantages(rollouts: list[Rollout]) -> Advantages:
    rewards = np.array([math.nan if rollout.reward is None else rollout.reward for rollout in rollouts])
    return group_advantages(rewards, [index // GROUP for index in range(len(rollouts))], GROUP)


@dataclass
class Ours:
    loss: float
    gradients: dict[str, Tensor]
    means: dict[str, float]


def by_us(folder: Path, rollouts: list[Rollout], reference: Reference, rows: list[Row], step: float) -> Ours:
    """Two packed rows. Without a step the policy is the one that generated, and its old scores are not computed."""
    model = packed_model(folder)
    objective = reference.objective
    lengths = [sum(rollouts[index].mask) for index in reference.order]
    weights = dict(zip(reference.order, sequence_weights(objective, lengths).tolist(), strict=True))
    advantages = our_advantages(rollouts).values
    ref = packed_model(folder)
    nudge(ref, 1, 0.02)
    with torch.no_grad():
        old = [scores(model, row, 0.8) for row in rows]
        ref_logps = [scores(ref, row, 0.8) for row in rows]
    if step:
        nudge(model, 2, step)
    loss = 0.0
    sums: dict[str, float] = {}
    for row, old_logps, reference_logps in zip(rows, old, ref_logps, strict=True):
        tokens = len(row.packed["ids"])
        places = len(row.packed["cu_seqlens"]) - 1
        per_document = torch.zeros(2, places)
        per_document[0, : len(row.members)] = torch.tensor([advantages[index] for index in row.members])
        per_document[1, : len(row.members)] = torch.tensor([weights[index] for index in row.members])
        part = packed_loss(
            objective,
            PackedTokens(
                logps=scores(model, row, 0.8),
                mask=row.packed["labels"] != IGNORE,
                document=torch.bucketize(torch.arange(tokens), row.packed["cu_seqlens"][1:], right=True),
                advantages=per_document[0],
                weights=per_document[1],
                old_logps=old_logps if step else None,
                ref_logps=reference_logps,
                engine_logps=row.engine_logps,
            ),
        )
        part.loss.backward()
        loss += part.loss.item()
        sums = {name: sums.get(name, 0.0) + float(value) for name, value in part.sums.items()}
    return Ours(loss, {name: weight.grad for name, weight in model.named_parameters()}, summarise(sums))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Qwen3 with logits far enough apart for ratios to leave their clip ranges."""
    path = tmp_path_factory.mktemp("trl")
    torch.manual_seed(0)
    model = build_model(SHAPE)
    model.config._attn_implementation = "sdpa"
    model.save_pretrained(path / "model")
    return path


def assert_same(ours: Ours, reference: Reference, share: float = 1.0) -> None:
    """`share`: what TRL's loss is multiplied by to get ours."""
    assert ours.loss == pytest.approx(share * reference.loss, rel=1e-5, abs=1e-7)
    largest = max(float(gradient.norm()) for gradient in reference.gradients.values())
    assert largest > 1e-3
    for name, gradient in reference.gradients.items():
        difference = float((ours.gradients[name] - share * gradient).norm())
        assert difference <= 1e-5 * float(gradient.norm()) + 1e-7 * largest, name


OBJECTIVES: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "bnpo": {"loss_type": "bnpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.05},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.04},
    "dapo of sequence ratios": {"loss_type": "dapo", "importance_sampling_level": "sequence", "epsilon": 0.03},
    "two-sided clip": {"loss_type": "dapo", "delta": 1.3},
    "kl": {"loss_type": "grpo", "beta": 0.3},
    "kl without bias correction": {"loss_type": "dapo", "beta": 0.3, "use_bias_correction_kl": False},
    "gspo with kl": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "beta": 0.3},
    "token truncate": {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 1.5},
    "token mask": {
        "vllm_importance_sampling_mode": "token_mask",
        "vllm_importance_sampling_clip_max": 1.5,
        "vllm_importance_sampling_clip_min": 0.5,
    },
    "sequence truncate": {"vllm_importance_sampling_mode": "sequence_truncate"},
    "sequence mask": {"vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 3.0},
    "everything": {
        "loss_type": "cispo",
        "epsilon_high": 1.05,
        "beta": 0.1,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 1.5,
    },
}


def settings_of(name: str) -> dict[str, Any]:
    settings = dict(OBJECTIVES[name])
    if "vllm_importance_sampling_mode" in settings:
        settings["vllm_importance_sampling_correction"] = True
    return settings


STEP = 0.1
ROWS = ([3, 0, 1, 2, 10], [11, 4, 9, 5, 8, 6, 7])
DEAD = (8, 9, 10, 11)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradients_equal_those_of_trl(name: str, folder: Path) -> None:
    rollouts = make_rollouts()
    reference = by_trl(folder, rollouts, settings_of(name), step=STEP)
    ours = by_us(folder, rollouts, reference, [pack_rollouts(rollouts, list(row)) for row in ROWS], step=STEP)
    assert_same(ours, reference)
    assert ours.means["clip_ratio/high_mean"] > 0.05
    assert ours.means["clip_ratio/low_mean"] > (-1 if reference.objective.loss_type == "cispo" else 0.05)
    if name.startswith(("token", "sequence")):
        assert 0.05 < ours.means["sampling/outside_share"] < 0.95
        assert ours.means["sampling/unscored_tokens"] == 1


def test_advantages_equal_those_of_trl(folder: Path) -> None:
    rollouts = make_rollouts()
    reference = by_trl(folder, rollouts, {}, step=STEP)
    ours = our_advantages(rollouts)
    assert sorted(reference.order) == list(range(len(rollouts)))
    for index, value in reference.advantages.items():
        assert ours.values[index] == pytest.approx(value, rel=1e-5, abs=1e-6)
    assert ours.dead.nonzero()[0].tolist() == list(DEAD)


@pytest.mark.parametrize("loss_type", ["grpo", "dapo"])
def test_leaving_out_a_dead_group_changes_nothing(loss_type: str, folder: Path) -> None:
    rollouts = make_rollouts()
    reference = by_trl(folder, rollouts, {"loss_type": loss_type}, step=STEP)
    live = [pack_rollouts(rollouts, [index for index in row if index not in DEAD]) for row in ROWS]
    assert_same(by_us(folder, rollouts, reference, live, step=STEP), reference)


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_one_pass_corrects_for_the_engine_as_two_passes_do(mode: str, folder: Path) -> None:
    """On-policy, the scores of the policy that generated are those of the training pass itself."""
    rollouts = make_rollouts()
    settings = {"vllm_importance_sampling_correction": True, "vllm_importance_sampling_mode": mode}
    reference = by_trl(folder, rollouts, settings, step=0.0)
    ours = by_us(folder, rollouts, reference, [pack_rollouts(rollouts, list(row)) for row in ROWS], step=0.0)
    assert_same(ours, reference)
    assert ours.means["clip_ratio/high_mean"] == ours.means["clip_ratio/low_mean"] == 0


@pytest.mark.parametrize(("loss_type", "share"), [("dapo", 1), ("bnpo", 1), ("grpo", 12 / 11), ("dr_grpo", 12 / 11)])
def test_a_completion_without_loss_is_in_no_denominator(loss_type: str, share: float, folder: Path) -> None:
    """TRL counts it where it divides by completions, and not where it divides by tokens."""
    rollouts = make_rollouts(masked_whole=True)
    reference = by_trl(folder, rollouts, {"loss_type": loss_type}, step=STEP)
    rows = [pack_rollouts(rollouts, [index for index in row if index != 4]) for row in ROWS]
    assert_same(by_us(folder, rollouts, reference, rows, step=STEP), reference, share)


def test_the_objective_is_that_of_the_arguments(folder: Path) -> None:
    def args(**settings: Any) -> GRPOConfig:
        return GRPOConfig(output_dir=str(folder / "out"), use_cpu=True, bf16=False, report_to=[], **settings)

    assert objective_from(args()) == replace(Objective(), max_completion_length=512, per_device_train_batch_size=8)
    assert objective_from(args(vllm_importance_sampling_cap=2.0)).vllm_importance_sampling_clip_max == 2.0
    with pytest.raises(ConfigError, match="loss_type is 'sapo'; use grpo, dr_grpo, dapo, bnpo, cispo"):
        objective_from(args(loss_type="sapo"))
