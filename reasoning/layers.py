"""The layers of a language model as counts: what mixes tokens, what caches them, how many weights.

Every count is of stored numbers, not of bytes; a weight is one of them whatever it is stored in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MixerKind(StrEnum):
    """What a layer keeps of the tokens before."""

    FULL = "full"  # keys and values of every token
    SLIDING = "sliding"  # keys and values of the last `window` tokens
    LATENT = "latent"  # one compressed vector a token, shared by all heads
    STATE = "state"  # a state of fixed size, whatever the length


@dataclass(frozen=True, slots=True)
class Mixer:
    """The part of a layer that looks at other tokens: attention, or a recurrence with a state.

    Fields that do not belong to the kind are 0. A latent mixer expands its vector to `query_heads` keys of
    `head_dim` and values of `value_dim`; its `kv_heads` is 1.
    """

    kind: MixerKind
    parameters: int
    query_heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0  # of a query and of a key
    value_dim: int = 0
    window: int = 0  # tokens
    latent_rank: int = 0  # numbers of the compressed vector
    rope_dim: int = 0  # numbers of the rotated key beside it
    state_values: int = 0  # numbers a sequence
    state_flops: int = 0  # of the recurrence, one token, without the projections

    @property
    def values_per_token(self) -> int:
        """Numbers that one token adds to the cache of this layer."""
        match self.kind:
            case MixerKind.FULL | MixerKind.SLIDING:
                return self.kv_heads * (self.head_dim + self.value_dim)
            case MixerKind.LATENT:
                return self.latent_rank + self.rope_dim
            case MixerKind.STATE:
                return 0


@dataclass(frozen=True, slots=True)
class Mlp:
    """The part of a layer that looks at one token. Dense: `experts` is 0 and everything is `shared_parameters`."""

    shared_parameters: int  # used by every token: a dense MLP, shared experts, the router
    expert_parameters: int = 0  # of one routed expert
    experts: int = 0
    active_experts: int = 0  # a token

    @property
    def parameters(self) -> int:
        return self.shared_parameters + self.experts * self.expert_parameters

    @property
    def active_parameters(self) -> int:
        return self.shared_parameters + self.active_experts * self.expert_parameters


@dataclass(frozen=True, slots=True)
class Layer:
    mixer: Mixer
    mlp: Mlp
    norm_parameters: int

    @property
    def parameters(self) -> int:
        return self.mixer.parameters + self.mlp.parameters + self.norm_parameters

    @property
    def active_parameters(self) -> int:
        return self.mixer.parameters + self.mlp.active_parameters + self.norm_parameters
