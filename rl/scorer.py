"""One pass over a packed row: the scores of its tokens, from a causal language model that attends with `packed`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rl.attention import of_row
from rl.logprobs import token_scores


class Scorer(nn.Module):
    """A model as the update uses it: its body, then the head with softmax and selection in one.

    `longest` bounds the tokens of a document, one number for all rows of a run: attention on CUDA starts work for that
    many in each.
    """

    def __init__(self, model: nn.Module, temperature: float, longest: int) -> None:
        super().__init__()
        self.model: Any = model
        self.temperature = temperature
        self.longest = longest
        self._hidden = _hidden
        self.compiled = False

    def compile_passes(self, wanted: bool) -> None:
        """Compile the body's passes from now on, or no longer."""
        self._hidden, self.compiled = (torch.compile(_hidden) if wanted else _hidden), wanted

    def forward(self, ids: Tensor, positions: Tensor, cu_seqlens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels and entropies, as in `rl.logprobs.TokenScores`."""
        if self.compiled:
            torch._dynamo.maybe_mark_dynamic(cu_seqlens, 0)  # rows differ in their number of documents alone
        hidden = self._hidden(self.model.base_model, ids, positions, cu_seqlens, self.longest)
        head = self.model.get_output_embeddings().weight
        scores = token_scores(hidden, head, labels, temperature=self.temperature, compiled=self.compiled)
        return scores.logps, scores.entropy


def dropouts(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that drop anything in training."""
    return [module for module in model.modules() if isinstance(module, nn.Dropout) and module.p > 0]


def _hidden(body: Any, ids: Tensor, positions: Tensor, cu_seqlens: Tensor, longest: int) -> Tensor:
    """Last hidden states [tokens, width] of a row."""
    return body(**of_row(ids, positions, cu_seqlens, longest)).last_hidden_state[0]
