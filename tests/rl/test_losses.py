"""Objectives by hand, token by token, and what must not change the loss of a step."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reasoning.config import ConfigError
from rl.losses import Objective, PackedTokens, packed_loss, ratio_percentiles, sequence_weights, summarise

NAN = math.nan
CISPO = Objective(loss_type="cispo", epsilon_high=1.2)


def row(
    lengths: Sequence[int],
    logps: Sequence[float],
    advantages: Sequence[float],
    objective: Objective,
    mask: Sequence[bool] | None = None,
    **others: Sequence[float],
) -> PackedTokens:
    """Documents of the given lengths, all their tokens with loss unless masked."""
    kept = [True] * sum(lengths) if mask is None else list(mask)
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    counted = torch.bincount(document, torch.tensor(kept, dtype=torch.float64), minlength=len(lengths))
    return PackedTokens(
        logps=torch.tensor(logps, dtype=torch.float32, requires_grad=True),
        mask=torch.tensor(kept),
        document=document,
        advantages=torch.tensor(advantages, dtype=torch.float32),
        weights=torch.from_numpy(sequence_weights(objective, counted.int().tolist())),
        **{name: torch.tensor(values) for name, values in others.items()},
    )


def one_token(objective: Objective, ratio: float, advantage: float) -> tuple[float, float]:
    """Loss of a token alone, and its slope in the log-probability."""
    tokens = row([1], [math.log(ratio) - 1.0], [advantage], objective, old_logps=[-1.0])
    loss = packed_loss(objective, tokens).loss
    loss.backward()
    return loss.item(), tokens.logps.grad.item()


@pytest.mark.parametrize(
    ("advantage", "ratio", "delta", "loss", "slope"),
    [
        (1, 0.5, None, -0.5, -0.5),
        (1, 1.2, None, -1.2, -1.2),
        (1, 1.3, None, -1.28, 0),
        (1, 3.5, None, -1.28, 0),
        (-1, 0.5, None, 0.8, 0),
        (-1, 0.9, None, 0.9, 0.9),
        (-1, 1.3, None, 1.3, 1.3),
        (-1, 3.5, None, 3.5, 3.5),
        (-1, 3.5, 3.0, 3.0, 0),
        (-1, 2.5, 3.0, 2.5, 2.5),
    ],
)
def test_clipping(advantage: float, ratio: float, delta: float | None, loss: float, slope: float) -> None:
    objective = Objective(epsilon=0.2, epsilon_high=0.28, delta=delta)
    assert one_token(objective, ratio, advantage) == pytest.approx((loss, slope), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("advantage", "ratio", "loss"), [(1, 1.28, -1.28), (-1, 0.8, 0.8)])
def test_loss_at_the_bound_itself(advantage: float, ratio: float, loss: float) -> None:
    assert one_token(Objective(epsilon=0.2, epsilon_high=0.28), ratio, advantage)[0] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.2, 3.5])
@pytest.mark.parametrize("advantage", [2.0, -0.5])
def test_cispo_learns_from_every_token_also_beyond_the_cap(ratio: float, advantage: float) -> None:
    assert one_token(CISPO, ratio, advantage)[1] == pytest.approx(-min(ratio, 1.2) * advantage, rel=1e-5)


OBJECTIVES = [
    Objective(loss_type="grpo"),
    Objective(loss_type="dapo"),
    Objective(loss_type="dr_grpo", max_completion_length=8),
    Objective(loss_type="bnpo", per_device_train_batch_size=2),
    CISPO,
    Objective(loss_type="grpo", importance_sampling_level="sequence"),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_on_policy_the_ratio_is_one_and_the_gradient_is_not_zero(objective: Objective) -> None:
    tokens = row([3, 3], [-1.0, -0.3, -2.2, -0.1, -4.0, -1.7], [1.5, -1.5], objective)
    found = packed_loss(objective, tokens)
    assert found.loss.item() == pytest.approx(0.0 if objective is not CISPO else (1.5 * 3.5 - 1.5 * 5.8) / 6, abs=1e-7)
    assert found.sums["clip_ratio/low_mean"] == found.sums["clip_ratio/high_mean"] == 0
    found.loss.backward()
    weight = 8 if objective.loss_type == "dr_grpo" else 3
    assert tokens.logps.grad.tolist() == pytest.approx([-1.5 / (2 * weight)] * 3 + [1.5 / (2 * weight)] * 3)


def test_on_policy_loss_is_minus_the_mean_advantage() -> None:
    objective = Objective()
    assert packed_loss(objective, row([2, 2], [-1.0] * 4, [0.75, 0.25], objective)).loss.item() == -0.5


def test_a_second_pass_over_the_same_rollouts_is_clipped() -> None:
    """The policy that generated stays the one before the first update."""
    objective = Objective()
    tokens = row([2], [-1.0, -1.0], [1.0], objective, old_logps=[-1.0, -1.5])
    found = packed_loss(objective, tokens)
    found.loss.backward()
    assert found.loss.item() == pytest.approx(-(1 + 1.2) / 2)
    assert tokens.logps.grad.tolist() == pytest.approx([-0.5, 0])
    assert summarise({k: float(v) for k, v in found.sums.items()})["clip_ratio/high_mean"] == 0.5


def test_the_ratio_of_a_sequence_is_the_mean_of_its_logarithms() -> None:
    objective = Objective(loss_type="grpo", importance_sampling_level="sequence", epsilon=0.9)
    tokens = row([3, 1], [0.1, -0.3, 0.5, 0.2], [1.0, 0.0], objective, old_logps=[0.0, 0.0, 0.0, 0.0])
    loss = packed_loss(objective, tokens).loss
    assert loss.item() == pytest.approx(-1.105171 / 2, rel=1e-6)  # not exp(0.3) = 1.349859
    loss.backward()
    assert tokens.logps.grad.tolist() == pytest.approx([-1.105171 / 6] * 3 + [0])


@pytest.mark.parametrize(
    ("mode", "low", "high", "expected"),
    [
        ("token_truncate", None, 2.0, [1.105171, 0.740818, 2.0, 1.0]),
        ("token_truncate", 0.9, 2.0, [1.105171, 0.9, 2.0, 1.0]),
        ("token_mask", None, 2.0, [1.105171, 0.740818, 0.0, 1.0]),
        ("token_mask", 0.9, None, [1.105171, 0.0, 2.718282, 1.0]),
        ("sequence_truncate", None, 3.0, [2.225541, 2.225541, 2.225541, 1.0]),
        ("sequence_truncate", None, 2.0, [2.0, 2.0, 2.0, 1.0]),
        ("sequence_mask", None, 3.0, [2.225541, 2.225541, 2.225541, 1.0]),
        ("sequence_mask", None, 2.0, [0.0, 0.0, 0.0, 1.0]),
    ],
)
@pytest.mark.parametrize("kept_old", [True, False])
def test_weights_between_the_engine_and_the_trainer(
    mode: str, low: float | None, high: float | None, expected: list[float], kept_old: bool
) -> None:
    """The ratio of a sequence is the product over its tokens. On-policy the trainer's own scores are the old ones."""
    objective = Objective(
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=low,
        vllm_importance_sampling_clip_max=high,
    )
    logps = [-1.0, -2.0, -3.0, -0.5]
    engine = [-1.1, -1.7, -4.0, -0.5]
    old = {"old_logps": logps} if kept_old else {}
    tokens = row([3, 1], logps, [-1.0, -1.0], objective, engine_logps=engine, **old)
    found = packed_loss(objective, tokens)
    found.loss.backward()
    assert tokens.logps.grad.mul(4).tolist() == pytest.approx(expected, rel=1e-5)
    means = summarise({name: float(value) for name, value in found.sums.items()})
    assert means["sampling/importance_sampling_ratio/mean"] == pytest.approx(sum(expected) / 4, rel=1e-5)
    raw = [1.105171, 0.740818, 2.718282, 1.0] if mode.startswith("token") else [2.225541] * 3 + [1.0]
    changed = sum(abs(a - b) > 1e-5 for a, b in zip(raw, expected, strict=True))
    assert means["sampling/outside_share"] == changed / 4


def test_without_correction_the_mismatch_is_measured_all_the_same() -> None:
    objective = Objective(vllm_importance_sampling_correction=False)
    tokens = row([4], [-1.0, -2.0, -3.0, -1.0], [1.0], objective, engine_logps=[-1.5, -2.0, -2.5, NAN])
    found = packed_loss(objective, tokens)
    means = summarise({name: float(value) for name, value in found.sums.items()})
    assert found.loss.item() == -1.0
    assert means["sampling/sampling_logp_difference/mean"] == pytest.approx(1 / 3)
    assert means["sampling/k3"] == pytest.approx((0.148721 + 0 + 0.106531) / 3, rel=1e-5)
    assert (means["sampling/scored_tokens"], means["sampling/unscored_tokens"]) == (3, 1)
    assert found.log_ratios.tolist() == pytest.approx([0.5, 0, -0.5, NAN], nan_ok=True)


@pytest.mark.parametrize("missing", [NAN, -math.inf])
@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_a_token_that_the_engine_did_not_score_weighs_one(missing: float, mode: str) -> None:
    objective = Objective(vllm_importance_sampling_mode=mode, vllm_importance_sampling_clip_max=3.0)
    tokens = row([2], [-1.0, -2.0], [1.0], objective, engine_logps=[missing, -2.0])
    found = packed_loss(objective, tokens)
    found.loss.backward()
    assert tokens.logps.grad.tolist() == pytest.approx([-0.5, -0.5])
    assert found.sums["sampling/unscored_tokens"] == 1


@pytest.mark.parametrize(("reference", "kl"), [(-1.0, 0.0), (-0.5, 0.148721), (-1.5, 0.106531)])
def test_kl_by_hand(reference: float, kl: float) -> None:
    objective = Objective(beta=2.0, use_bias_correction_kl=False)
    found = packed_loss(objective, row([1], [-1.0], [0.0], objective, ref_logps=[reference]))
    assert found.sums["kl"].item() == pytest.approx(kl, rel=1e-5)
    assert found.loss.item() == pytest.approx(2 * kl, rel=1e-5)


def test_bias_correction_weighs_the_kl_with_the_policy_ratio() -> None:
    objective = Objective(beta=1.0)
    tokens = row([1], [-1.0], [0.0], objective, old_logps=[-1.5], ref_logps=[-0.5])
    loss = packed_loss(objective, tokens).loss
    loss.backward()
    ratio, kl, slope_of_kl = math.exp(0.5), 0.148721, 1 - math.exp(0.5)
    assert loss.item() == pytest.approx(ratio * kl, rel=1e-5)
    assert tokens.logps.grad.item() == pytest.approx(ratio * (slope_of_kl + kl), rel=1e-5)


def test_a_kl_without_its_reference_is_refused() -> None:
    objective = Objective(beta=0.1)
    with pytest.raises(ValueError, match=r"beta is 0\.1, but the row has no reference"):
        packed_loss(objective, row([1], [-1.0], [1.0], objective))


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (Objective(loss_type="dapo"), 1.7),
        (Objective(loss_type="grpo"), 1.75),
        (Objective(loss_type="bnpo", per_device_train_batch_size=2), 1.8125),
        (Objective(loss_type="bnpo", per_device_train_batch_size=4), 1.7),
        (Objective(loss_type="dr_grpo", max_completion_length=8), 0.53125),
    ],
)
def test_normalisers_by_hand(objective: Objective, expected: float) -> None:
    """Two micro-batches: lengths 1 and 1 with losses 4 and 0; lengths 3 and 5 with losses 1 and 2 a token."""
    weights = sequence_weights(objective, [1, 1, 3, 5])
    assert float(weights @ [1 * 4, 1 * 0, 3 * 1, 5 * 2]) == pytest.approx(expected, rel=1e-6)


def test_each_step_is_normalised_by_its_own_tokens() -> None:
    """One generation for two steps of unequal length: the constant loss 1 stays 1 in both."""
    for lengths in ([1, 2], [30, 40]):
        assert float(sequence_weights(Objective(), lengths) @ lengths) == pytest.approx(1.0)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_completions_without_loss_are_in_no_denominator(objective: Objective) -> None:
    batches = replace(objective, per_device_train_batch_size=3 if objective.loss_type == "bnpo" else None)
    assert sequence_weights(batches, [2, 0, 5, 3, 0, 4])[[0, 2, 3, 5]].tolist() == pytest.approx(
        sequence_weights(objective, [2, 5, 3, 4]).tolist()
    )
    assert sequence_weights(batches, [2, 0, 5])[1] == 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_step_without_any_loss_is_zero_and_not_nan(objective: Objective) -> None:
    beta = replace(objective, beta=0.1)
    nothing = [NAN, NAN, NAN]
    tokens = row(
        [2, 1], [-1.0] * 3, [1.0, -1.0], beta, [False] * 3, old_logps=nothing, ref_logps=nothing, engine_logps=nothing
    )
    found = packed_loss(beta, tokens)
    found.loss.backward()
    assert found.loss.item() == 0
    assert tokens.logps.grad.tolist() == [0, 0, 0]
    assert all(math.isfinite(value) for value in summarise({k: float(v) for k, v in found.sums.items()}).values())
    assert ratio_percentiles(found.log_ratios).isnan().all()


def test_a_masked_token_has_no_influence() -> None:
    objective = Objective(beta=0.1)
    slopes = []
    for junk in (NAN, 50.0):
        mask = [True, False, True]
        values = [[-1.5, junk, -0.5], [-1.2, junk, -2.5], [-1.0, junk, -1.5]]
        others = dict(zip(("old_logps", "ref_logps", "engine_logps"), values, strict=True))
        tokens = row([3], [-1.0, -7.0, -2.0], [1.0], objective, mask, **others)
        found = packed_loss(objective, tokens)
        found.loss.backward()
        slopes.append((found.loss.item(), tokens.logps.grad.tolist()))
        assert tokens.logps.grad[1] == 0
    assert slopes[0] == slopes[1]


def step_slopes(objective: Objective, lengths: list[int], rows: list[list[int]], spread: int) -> tuple[float, Tensor]:
    """The loss of a step and its slope in every token, documents packed into the given rows."""
    generator = torch.Generator().manual_seed(3)
    total = sum(lengths)
    logps, old, engine, ref = (-1 - torch.rand(total, generator=generator) for _ in range(4))
    advantages = torch.randn(len(lengths), generator=generator)
    weights = torch.from_numpy(sequence_weights(objective, lengths))
    starts = [0, *itertools.accumulate(lengths)]
    slope = torch.zeros(total)
    loss = 0.0
    for members in rows:
        where = torch.cat([torch.arange(starts[index], starts[index + 1]) for index in members])
        own = torch.tensor(members)
        own_lengths = torch.tensor(lengths)[own]
        empty = torch.zeros(spread)  # places for documents that this row does not hold
        leaf = logps[where].clone().requires_grad_()
        found = packed_loss(
            objective,
            PackedTokens(
                logps=leaf,
                mask=torch.ones(len(where), dtype=torch.bool),
                document=torch.repeat_interleave(torch.arange(len(members)), own_lengths),
                advantages=torch.cat([advantages[own], empty]),
                weights=torch.cat([weights[own], empty]),
                old_logps=old[where],
                ref_logps=ref[where],
                engine_logps=engine[where],
            ),
        )
        found.loss.backward()
        loss += found.loss.item()
        slope.index_copy_(0, where, leaf.grad)
    return loss, slope


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([*OBJECTIVES, Objective(beta=0.1), Objective(vllm_importance_sampling_mode="token_truncate")]),
    st.permutations(range(8)),
    st.sets(st.integers(1, 7)),
    st.integers(0, 3),
)
def test_packing_and_micro_batches_change_nothing(
    objective: Objective, order: list[int], cuts: set[int], spread: int
) -> None:
    """However the completions of a step are ordered, packed into rows and spread over processes."""
    lengths = [4, 1, 7, 2, 6, 3, 5, 8]
    bounds = [0, *sorted(cuts), 8]
    rows = [order[start:end] for start, end in itertools.pairwise(bounds)]
    whole_loss, whole = step_slopes(objective, lengths, [list(range(8))], 0)
    loss, slope = step_slopes(objective, lengths, rows, spread)
    assert loss == pytest.approx(whole_loss, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(slope, whole, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_without_a_dead_group_the_gradient_is_the_same_to_the_bit(objective: Objective) -> None:
    advantages = [1.0, -1.0, 0.0, 0.0]
    logps = [-1.0, -2.0, -0.5, -0.7, -3.0, -0.2]
    lengths = [2, 1, 2, 1]
    whole = row(lengths, logps, advantages, objective)
    packed_loss(objective, whole).loss.backward()
    part = replace(row(lengths[:2], logps[:3], advantages[:2], objective), weights=whole.weights[:2])
    packed_loss(objective, part).loss.backward()
    assert whole.logps.grad.tolist() == [*part.logps.grad.tolist(), 0, 0, 0]
    assert part.logps.grad.abs().min() > 0


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.randoms())
def test_weights_go_with_their_completions(lengths: list[int], random: Any) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)
    for objective in OBJECTIVES[:3]:
        straight = sequence_weights(objective, lengths)
        shuffled = sequence_weights(objective, [lengths[index] for index in order])
        assert shuffled.tolist() == straight[order].tolist()


def test_percentiles_of_the_ratio() -> None:
    log_ratios = torch.linspace(-1, 1, 101)[torch.randperm(101)]
    with_gaps = torch.cat([log_ratios, torch.full((50,), NAN)]).reshape(-1, 1)
    expected = torch.tensor([-0.98, 0.0, 0.98]).exp()
    torch.testing.assert_close(ratio_percentiles(with_gaps), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loss_type": "ppo"}, "loss_type is 'ppo'; use grpo, dr_grpo, dapo, bnpo, cispo"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level is 'word'; use token, sequence"),
        ({"vllm_importance_sampling_mode": "mask"}, "vllm_importance_sampling_mode is 'mask'; use token_truncate"),
        ({"loss_type": "dr_grpo"}, "dr_grpo divides by max_completion_length, which is not set"),
        ({"loss_type": "bnpo"}, "bnpo divides by per_device_train_batch_size, which is not set"),
        ({"loss_type": "cispo"}, "caps the ratio at epsilon_high, which is None"),
        ({"loss_type": "cispo", "epsilon_high": 0.2}, r"caps the ratio at epsilon_high, which is 0\.2"),
        (
            {"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None},
            "token_truncate has no bound",
        ),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Objective(**wrong)
