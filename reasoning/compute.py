"""What tokens cost: floating-point operations and bytes of memory, from the shape of a model alone.

A token at position p is the one that sees p + 1 tokens, itself included. A multiplication and an addition are two
operations. Counted are matrices, attention scores and recurrences; norms, activations and rotations are left out, as
everywhere in the literature (Kaplan et al. 2020, arXiv:2001.08361, section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reasoning.layers import MixerKind
from reasoning.model_shape import KvLayers, ModelShape


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that one number takes: of a layer's weight, of an embedding's or the head's, of keys and values."""

    layer_weight: float
    head_weight: float
    kv: float


def stored_bytes(shape: ModelShape, storage: Storage) -> float:
    """Bytes of all weights; a tied table counts once."""
    tables = shape.parameters - shape.layer_parameters
    return shape.layer_parameters * storage.layer_weight + tables * storage.head_weight


def token_flops(shape: ModelShape) -> int:
    """Of one token, apart from attention scores and the head: two for each weight that it meets."""
    return sum(
        2 * (layer.mixer.parameters + layer.mlp.active_parameters) + layer.mixer.state_flops for layer in shape.layers
    )


def head_flops(shape: ModelShape) -> int:
    """Of the logits of one token."""
    return 2 * shape.head_parameters


@dataclass(frozen=True, slots=True)
class Scores:
    """Layers of one window together: operations of one token for each token in its sight."""

    window: int  # tokens; 0: no limit
    prefill: int
    decode: int


def scores_of(shape: ModelShape) -> tuple[Scores, ...]:
    """The attention of a model, by window.

    Each query head multiplies a query with every key in sight and sums every value. A latent layer that decodes works
    on the compressed vectors themselves (DeepSeek-V2, arXiv:2405.04434, section 2.1), one that prefills on the
    expanded keys and values.
    """
    found: dict[int, Scores] = {}
    for mixer in (layer.mixer for layer in shape.layers if layer.mixer.kind is not MixerKind.STATE):
        expanded = 2 * mixer.query_heads * (mixer.head_dim + mixer.value_dim)
        latent = 2 * mixer.query_heads * (2 * mixer.latent_rank + mixer.rope_dim)
        decode = latent if mixer.kind is MixerKind.LATENT else expanded
        before = found.get(mixer.window, Scores(mixer.window, 0, 0))
        found[mixer.window] = Scores(mixer.window, before.prefill + expanded, before.decode + decode)
    return tuple(found.values())


def attention_flops(scores: Iterable[Scores], start: int, end: int, *, decode: bool) -> int:
    """Scores and weighted sums of the tokens at positions start to end - 1, over all layers."""
    return sum((one.decode if decode else one.prefill) * seen_tokens(start, end, one.window) for one in scores)


def seen_tokens(start: int, end: int, window: int = 0) -> int:
    """Tokens in sight, summed over the tokens at positions start to end - 1; a `window` of 0 is no limit."""

    def upto(length: int) -> int:
        if window and length > window:
            return upto(window) + (length - window) * window
        return length * (length + 1) // 2

    return upto(end) - upto(start)


def prefill_flops(shape: ModelShape, start: int, end: int) -> int:
    """Of a prompt of `end` tokens whose first `start` are in the cache; only the last token makes logits."""
    if end <= start:
        return 0
    scores = attention_flops(scores_of(shape), start, end, decode=False)
    return (end - start) * token_flops(shape) + scores + head_flops(shape)


def decode_flops(shape: ModelShape, start: int, end: int) -> int:
    """Of tokens that come one by one, at positions start to end - 1."""
    each = token_flops(shape) + head_flops(shape)
    return (end - start) * each + attention_flops(scores_of(shape), start, end, decode=True)


def step_weight_bytes(shape: ModelShape, batch: float, storage: Storage) -> float:
    """What one step over `batch` tokens reads of the weights: layers and head whole, a row of the embedding a token.

    Of routed experts it reads those that some token goes to: E (1 - (1 - k/E)^batch) of E, if tokens choose their k
    independently and evenly.
    """
    layers = float(shape.final_norm_parameters)
    for layer in shape.layers:
        mlp = layer.mlp
        touched = mlp.experts * (1 - (1 - mlp.active_experts / mlp.experts) ** batch) if mlp.experts else 0.0
        layers += layer.mixer.parameters + layer.norm_parameters + mlp.shared_parameters
        layers += touched * mlp.expert_parameters
    rows = shape.head_parameters + batch * shape.hidden_size
    return layers * storage.layer_weight + rows * storage.head_weight


def cache_bytes(groups: Iterable[KvLayers], start: int, end: int) -> float:
    """What tokens that come one by one at positions start to end - 1 read and write of the cache.

    `groups` as `reasoning.model_shape.kv_layers` gives them. A state is read and written whole by every token.
    """
    new = end - start
    return sum(
        2.0 * group.state_bytes * new + group.bytes_per_token * (seen_tokens(start, end, group.window) + new)
        for group in groups
    )


def prefill_cache_bytes(groups: Iterable[KvLayers], start: int, end: int) -> float:
    """Likewise of a prompt that is computed at once: what is cached is read once, the rest written and read once."""
    new = end - start
    return sum(
        2.0 * group.state_bytes
        + group.bytes_per_token * ((min(end, group.window + new) if group.window else end) + new)
        for group in groups
    )
