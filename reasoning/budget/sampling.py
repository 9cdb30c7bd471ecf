"""How the tokens of a sample are drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """Of the trace as of every answer. `top_k` 0, `top_p` 1 and `min_p` 0 leave every token in."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Thinking that closes early goes on with `text` for the closing marker, `times` times (arXiv 2501.19393)."""

    times: int = 0
    text: str = "Wait"


def derive_seed(seed: int, task_id: str, sample: int, purpose: str) -> int:
    """The seed of one request, 0 to 2**63 - 1: different for each, and the same in every run with the same `seed`."""
    text = "\0".join((str(seed), task_id, str(sample), purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
