"""Chunked log-probabilities equal those of the plain computation, and so do their gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rl.logprobs import TokenScores, token_scores
from rl.packing import IGNORE

TOKENS, WIDTH, VOCABULARY = 23, 8, 50


def plain(hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float) -> TokenScores:
    log_softmax = (hidden @ weight.T / temperature).float().log_softmax(dim=1)
    chosen = log_softmax.gather(1, labels.clamp(min=0)[:, None])[:, 0]
    entropy = -(log_softmax.exp() * log_softmax).sum(dim=1)
    scored = labels != IGNORE
    return TokenScores(torch.where(scored, chosen, 0.0), torch.where(scored, entropy, 0.0))


def inputs(seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator).to(dtype).requires_grad_()
    labels = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    labels[[0, 7, TOKENS - 1]] = IGNORE
    return hidden, weight, labels, torch.randn(TOKENS, generator=generator)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, TOKENS + 3), st.sampled_from([0.3, 0.7, 1.0, 2.0]), st.integers(0, 3))
def test_values_and_gradients_for_any_chunk(rows: int, temperature: float, seed: int) -> None:
    hidden, weight, labels, slope = inputs(seed)
    found = token_scores(hidden, weight, labels, temperature=temperature, chunk_logits=rows * VOCABULARY)
    gradients = torch.autograd.grad((found.logps * slope).sum(), (hidden, weight))
    expected = plain(hidden, weight, labels, temperature)
    expected_gradients = torch.autograd.grad((expected.logps * slope).sum(), (hidden, weight))
    torch.testing.assert_close(found.logps, expected.logps, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.entropy, expected.entropy, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-5, atol=1e-5)


def test_one_token_by_hand() -> None:
    weight = torch.tensor([[0.0], [math.log(3.0)]])
    found = token_scores(torch.ones(1, 1), weight, torch.tensor([1]))
    assert found.logps.item() == pytest.approx(math.log(0.75))
    assert found.entropy.item() == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))


def test_an_ignored_position_scores_nothing_and_moves_nothing() -> None:
    hidden, weight, labels, _ = inputs(0)
    found = token_scores(hidden, weight, labels)
    (gradient,) = torch.autograd.grad(found.logps.sum(), hidden)
    ignored = labels == IGNORE
    assert (found.logps[ignored] == 0).all() and (gradient[ignored] == 0).all()
    assert (found.logps[~ignored] < 0).all() and (gradient[~ignored].abs().sum(dim=1) > 0).all()


def test_entropy_has_no_gradient() -> None:
    hidden, weight, labels, _ = inputs(0)
    assert not token_scores(hidden, weight, labels).entropy.requires_grad


def test_bfloat16_weights_get_bfloat16_gradients_close_to_the_plain_ones() -> None:
    hidden, weight, labels, slope = inputs(1, torch.bfloat16)
    found = token_scores(hidden, weight, labels, chunk_logits=5 * VOCABULARY)
    gradients = torch.autograd.grad((found.logps * slope).sum(), (hidden, weight))
    exact_inputs = (hidden.detach().float().requires_grad_(), weight.detach().float().requires_grad_())
    exact = plain(*exact_inputs, labels, 1.0)
    exact_gradients = torch.autograd.grad((exact.logps * slope).sum(), exact_inputs)
    assert found.logps.dtype == torch.float32
    torch.testing.assert_close(found.logps, exact.logps, rtol=0.02, atol=0.03)
    for gradient, expected in zip(gradients, exact_gradients, strict=True):
        assert gradient.dtype == torch.bfloat16
        assert float((gradient.float() - expected).norm()) < 0.02 * float(expected.norm())


def test_large_logits_stay_finite() -> None:
    hidden = torch.full((2, 1), 1e4, requires_grad=True)
    found = token_scores(hidden, torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]))
    assert found.logps.tolist() == [0.0, -2e4]
    found.logps.sum().backward()
    assert hidden.grad.isfinite().all()


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature is 0"):
        token_scores(*inputs(0)[:3], temperature=0)


def test_it_compiles_as_one_graph() -> None:
    hidden, weight, labels, slope = inputs(2)
    compiled = torch.compile(token_scores, backend="aot_eager", fullgraph=True)
    found = compiled(hidden, weight, labels, chunk_logits=10 * VOCABULARY)
    gradients = torch.autograd.grad((found.logps * slope).sum(), (hidden, weight))
    expected = token_scores(hidden, weight, labels, chunk_logits=10 * VOCABULARY)
    expected_gradients = torch.autograd.grad((expected.logps * slope).sum(), (hidden, weight))
    torch.testing.assert_close(found.logps, expected.logps)
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16_on_cuda(compiled: bool) -> None:
    hidden, weight, labels, slope = (tensor.detach().cuda() for tensor in inputs(1, torch.bfloat16))
    leaves = (hidden.requires_grad_(), weight.requires_grad_())
    function = torch.compile(token_scores, fullgraph=True) if compiled else token_scores
    found = function(*leaves, labels, chunk_logits=5 * VOCABULARY)
    gradients = torch.autograd.grad((found.logps * slope).sum(), leaves)
    exact_leaves = (hidden.detach().float().requires_grad_(), weight.detach().float().requires_grad_())
    exact = plain(*exact_leaves, labels, 1.0)
    exact_gradients = torch.autograd.grad((exact.logps * slope).sum(), exact_leaves)
    torch.testing.assert_close(found.logps, exact.logps, rtol=0.02, atol=0.03)
    for gradient, expected in zip(gradients, exact_gradients, strict=True):
        assert float((gradient.float() - expected).norm()) < 0.02 * float(expected.norm())
