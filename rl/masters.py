"""Float32 masters of weights that compute in a shorter dtype, so that small updates are not rounded away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Masters:
    """Float32 copies of weights that compute in another dtype; of float32 weights, the weights themselves."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = list(weights)
        self.copied = any(weight.dtype != torch.float32 for weight in self.weights)
        self.tensors: list[Tensor] = (
            [weight.detach().float().clone().requires_grad_() for weight in self.weights]
            if self.copied
            else [*self.weights]
        )

    def groups(self, decays: Sequence[bool], weight_decay: float) -> list[dict[str, Any]]:
        """The masters as optimizers take them: with the decay where `decays` says so, one a weight, and without."""
        found = []
        for wanted, decay in ((True, weight_decay), (False, 0.0)):
            chosen = [master for master, decayed in zip(self.tensors, decays, strict=True) if decayed is wanted]
            if chosen:
                found.append({"params": chosen, "weight_decay": decay})
        return found

    def take_gradients(self) -> None:
        """The gradients that a backward pass left at the weights become those of the masters."""
        if self.copied:
            for master, weight in zip(self.tensors, self.weights, strict=True):
                assert weight.grad is not None
                master.grad = weight.grad.float()
                weight.grad = None

    def put_back(self) -> None:
        """The weights follow the masters."""
        if self.copied:
            with torch.no_grad():
                torch._foreach_copy_([weight.data for weight in self.weights], self.tensors)
