"""Weights, gradients and the optimizer's state spread over processes: FSDP2, PyTorch's `fully_shard`.

Each process holds its part of every float32 weight, which is the optimizer's master. A layer is put together, in the
dtype that it computes in, while it is used. Gradients are added up in float32, as without sharding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map

from rl.scorer import Scorer


def shard(scorer: Scorer, dtype: torch.dtype) -> None:
    """Spread the scorer's model over all processes; it computes in `dtype`."""
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    layers = set(scorer.model._no_split_modules or ())
    for module in scorer.model.modules():
        if type(module).__name__ in layers:
            fully_shard(module, mp_policy=policy)
    # The rest together, given up after each pass, too: a pass without gradients would else leave old weights behind.
    fully_shard(scorer, mp_policy=policy, reshard_after_forward=True)
    for module in scorer.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # the loss is a sum, weighed over all processes
            module.set_force_sum_reduction_for_comms(True)


def is_sharded(model: nn.Module) -> bool:
    """Whether the weights are spread over processes."""
    return any(isinstance(weight, DTensor) for weight in model.parameters())


def whole(tensor: Tensor) -> Tensor:
    """A tensor put together from all processes, which all have to ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_state(state: Any) -> Any:
    """Nested values with every tensor put together, in main memory."""
    return tree_map(lambda value: value.full_tensor().cpu() if isinstance(value, DTensor) else value, state)


def spread(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, spread as `like` is."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def spread_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state of an optimizer that `whole_state` put together, for the optimizer of a sharded model."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    spread_state = {
        index: {name: spread(value, weights[index]) if torch.is_tensor(value) else value for name, value in one.items()}
        for index, one in state["state"].items()
    }
    return {**state, "state": spread_state}


def load_sharded(model: nn.Module, whole_weights: Mapping[str, Tensor]) -> None:
    """Give every process its part of whole weights."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(spread(whole_weights[name], weight))
