"""How large the KV cache is on the CPU, where memory is shared with everything else."""

from __future__ import annotations

from reasoning.engine.base import CacheTooSmall

GIB = 1024**3
DEFAULT_BYTES = 2 * GIB
LIMIT_BYTES = 4 * GIB


def cpu_kv_bytes(
    *,
    token_bytes: int,
    block_size: int,
    max_model_len: int,
    max_num_seqs: int,
    free_bytes: int,
    asked_bytes: int | None,
) -> int:
    """Bytes of KV cache: what was asked for, else as much as the largest batch can use, up to `DEFAULT_BYTES`.

    One request of `max_model_len` tokens always fits; for that the default grows up to `LIMIT_BYTES` or half of the
    free memory. CacheTooSmall when one request is more. `token_bytes` is what one token takes over all layers.
    """
    blocks = -(-max_model_len // block_size) + 1  # vLLM keeps one block as a placeholder
    one = blocks * block_size * token_bytes
    limit = min(LIMIT_BYTES, free_bytes // 2) if asked_bytes is None else asked_bytes
    if one > limit:
        raise CacheTooSmall(
            f"one request of {max_model_len:,} tokens needs {one / GIB:.3g} GiB of KV cache "
            f"({token_bytes:,} bytes a token), allowed are {limit / GIB:.3g} GiB; "
            f"set engine.kv_cache_gb to {-(-one * 100 // GIB) / 100:.2f} or more, or use a shorter context"
        )
    if asked_bytes is not None:
        return asked_bytes
    return min(limit, max(one, min(DEFAULT_BYTES, max_num_seqs * one)))
