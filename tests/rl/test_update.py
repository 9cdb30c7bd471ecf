"""The packed update: how completions are packed changes nothing, and masters remember what bfloat16 cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Qwen3ForCausalLM

from rl.coldstart import ModelShape, build_model
from rl.losses import Objective, sequence_weights
from rl.masters import Masters
from rl.rows import RolloutDocument
from rl.scorer import Scorer
from rl.update import NonFiniteLoss, PackedUpdate

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)
OBJECTIVES = [
    Objective(),
    Objective(loss_type="grpo", importance_sampling_level="sequence"),
    Objective(loss_type="dr_grpo", max_completion_length=40),
    Objective(loss_type="cispo", epsilon_high=5.0),
]


def tiny() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return build_model(SHAPE).train()


def rollouts(objective: Objective, *, old: bool = False) -> list[RolloutDocument]:
    """Seven completions, one of a single token and one that fills the smallest row."""
    rng = np.random.default_rng(0)
    lengths = [4, 40, 17, 23, 9, 31, 12]
    weights = sequence_weights(objective, [length - 3 for length in lengths])
    found = []
    for length, weight in zip(lengths, weights, strict=True):
        learned = np.arange(length) >= 3
        logps = np.where(learned, rng.normal(-6.5, 0.1, length), np.nan).astype(np.float32)
        found.append(
            RolloutDocument(
                rng.integers(0, 800, length),
                learned,
                float(rng.normal()),
                float(weight),
                old_logps=logps if old else None,
            )
        )
    return found


def update(model: nn.Module, objective: Objective, row_tokens: int, threads: int = 1) -> PackedUpdate:
    return PackedUpdate(
        Scorer(model, 1.0, row_tokens),
        objective,
        Masters(list(model.parameters())),
        row_tokens=row_tokens,
        threads=threads,
        compiled=False,
    )


def gradients(
    objective: Objective, row_tokens: int, threads: int = 1, *, old: bool = False, checkpointing: bool = False
) -> list[torch.Tensor]:
    model = tiny()
    if checkpointing:
        model.gradient_checkpointing_enable()
    packed = update(model, objective, row_tokens, threads)
    kept: list[torch.Tensor] = []

    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.register_step_pre_hook(lambda *_: kept.extend(weight.grad.clone() for weight in model.parameters()))
    packed.step(packed.pack(rollouts(objective, old=old)), optimizer, 0.0)
    return kept


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda one: one.loss_type)
@pytest.mark.parametrize("old", [False, True])
def test_rows_and_threads_change_nothing_but_rounding(objective: Objective, old: bool) -> None:
    whole = gradients(objective, 400, old=old)
    assert sum(float(one.abs().sum()) for one in whole) > 0
    for row_tokens, threads in ((40, 1), (64, 2), (100, 3)):
        for one, other in zip(whole, gradients(objective, row_tokens, threads, old=old), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


def test_activations_computed_again_give_the_same_gradient() -> None:
    kept, again = (gradients(Objective(), 64, checkpointing=wanted) for wanted in (False, True))
    for one, other in zip(kept, again, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


def test_the_same_rows_and_threads_give_the_same_bits() -> None:
    first, second = (gradients(Objective(), 64, 2) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_compilation_that_fails_is_told_and_the_update_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no compiler here\nand a long story")

    monkeypatch.setattr(torch, "compile", lambda *_: refuse)
    told: list[str] = []
    model = tiny()
    masters = Masters(list(model.parameters()))
    scorer = Scorer(model, 1.0, 64)
    packed = PackedUpdate(scorer, Objective(), masters, row_tokens=64, threads=1, compiled=True, say=told.append)
    assert told[-1].startswith("WARNING: torch.compile failed") and "RuntimeError: no compiler here)" in told[-1]
    metrics = packed.step(packed.pack(rollouts(Objective())), torch.optim.SGD(model.parameters(), lr=0.1), 1.0)
    assert metrics["grad_norm"] > 0


def test_scores_are_those_of_each_completion_alone() -> None:
    model = tiny()
    documents = rollouts(Objective())
    packed = update(model, Objective(), 64).logps(documents)
    for document, found in zip(documents, packed, strict=True):
        ids = torch.from_numpy(document.ids)
        with torch.no_grad():
            cu = torch.tensor([0, len(ids)], dtype=torch.int32)
            logits = model(
                input_ids=ids[None],
                position_ids=torch.arange(len(ids))[None],
                attention_mask={"full_attention": None},
                cu_seqlens=cu,
                longest=len(ids),
                use_cache=False,
            ).logits[0]
        alone = logits.log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0].numpy()
        assert np.isnan(found[:3]).all()
        np.testing.assert_allclose(found[3:], alone[2:], rtol=1e-5)


def test_a_loss_that_is_no_number_moves_nothing() -> None:
    model = tiny()
    packed = update(model, Objective(), 64)
    documents = rollouts(Objective())
    documents[2] = RolloutDocument(documents[2].ids, documents[2].learned, float("nan"), 1.0)
    before = [weight.detach().clone() for weight in model.parameters()]
    with pytest.raises(NonFiniteLoss, match="nan"):
        packed.step(packed.pack(documents), torch.optim.SGD(model.parameters(), lr=1.0), 1.0)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_masters_keep_updates_that_bfloat16_rounds_away() -> None:
    weight = nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    masters = Masters([weight])
    optimizer = torch.optim.SGD(masters.tensors, lr=1e-4)
    for _ in range(100):
        masters.tensors[0].grad = torch.ones(8)
        optimizer.step()
        masters.put_back()
    torch.testing.assert_close(masters.tensors[0].detach(), torch.full((8,), 0.99), rtol=1e-4, atol=0)
    assert (weight < 1).all()  # a hundred steps of 1e-4 each are seen, though one of them is not
    plain = torch.ones(1, dtype=torch.bfloat16)
    assert plain - 1e-4 == 1


def test_float32_weights_are_their_own_masters() -> None:
    weight = nn.Parameter(torch.ones(2))
    assert Masters([weight]).tensors[0] is weight


@pytest.mark.gpu
def test_compiled_rows_on_cuda_are_one_graph_without_waiting_and_near_the_eager_ones() -> None:
    """Rows of few and of many documents; the device is waited for where the numbers are read, nowhere before."""
    found = []
    for compiled in (False, True):
        model = tiny().bfloat16().cuda()
        masters = Masters(list(model.parameters()))
        scorer = Scorer(model, 1.0, 64)
        packed = PackedUpdate(scorer, Objective(), masters, row_tokens=256, threads=1, compiled=compiled)
        torch._dynamo.utils.counters.clear()
        few, many = (packed.pack(rollouts(Objective()) * times) for times in (1, 3))
        torch.cuda.set_sync_debug_mode("error")
        try:
            found.append(packed._accumulate([*few, *many]).gradients)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 0  # none but those of the trial
    for one, other in zip(*found, strict=True):
        assert float((one - other).norm()) < 0.05 * float(one.norm()) + 1e-4
