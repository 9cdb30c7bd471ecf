"""How sure a model was, from the log-probabilities of the tokens that it sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GROUP = 256
"""Tokens of the sliding window whose mean is the confidence of thinking."""


def answer_confidence(logprobs: Sequence[float]) -> float | None:
    """Mean probability of the tokens, as DEER's arithmetic mean; NaN, of injected ids, left out. None: none known."""
    known = _known(logprobs)
    return float(np.exp(known).mean()) if len(known) else None


def thinking_confidence(logprobs: Sequence[float]) -> float | None:
    """The lowest mean log-probability, in nats, of `GROUP` tokens in a row; of all while there are fewer.

    DeepConf's lowest group confidence (Y. Fu et al., 2025), but of the sampled tokens where it takes the 20 likeliest.
    """
    known = _known(logprobs)
    if len(known) <= GROUP:
        return float(known.mean()) if len(known) else None
    sums = np.concatenate([[0.0], np.cumsum(known)])
    return float((sums[GROUP:] - sums[:-GROUP]).min() / GROUP)


def _known(logprobs: Sequence[float]) -> np.ndarray:
    values = np.asarray(logprobs, dtype=float)
    return values[~np.isnan(values)]
