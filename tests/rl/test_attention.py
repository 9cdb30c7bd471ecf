"""Documents packed into a row compute exactly what each computes alone."""

import torch
from torch import Tensor

from rl.attention import document_mask
from rl.coldstart import ModelShape, build_model

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)


def logits(model: torch.nn.Module, ids: Tensor, lengths: list[int]) -> Tensor:
    """Logits [tokens, vocabulary] of documents of the given lengths laid end to end."""
    cu_seqlens = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        return model(
            input_ids=ids[None],
            position_ids=positions[None],
            attention_mask={"full_attention": None},
            cu_seqlens=cu_seqlens,
            longest=max(lengths),
            use_cache=False,
        ).logits[0]


def test_mask_by_hand() -> None:
    mask = document_mask(torch.tensor([0, 2, 3, 3], dtype=torch.int32), 3)
    assert mask.int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]


def test_packed_equals_one_by_one() -> None:
    torch.manual_seed(0)
    model = build_model(SHAPE).eval()
    lengths = [7, 1, 12, 5]
    ids = torch.randint(0, 800, (sum(lengths),))
    together = logits(model, ids, lengths)
    alone = torch.cat([logits(model, part, [len(part)]) for part in ids.split(lengths)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_another_document_changes_nothing() -> None:
    torch.manual_seed(0)
    model = build_model(SHAPE).eval()
    ids = torch.randint(0, 800, (20,))
    other = ids.clone()
    other[:12] = torch.randint(0, 800, (12,))
    first, second = logits(model, ids, [12, 8]), logits(model, other, [12, 8])
    assert not torch.equal(first[:12], second[:12])
    torch.testing.assert_close(first[12:], second[12:], rtol=0, atol=0)
