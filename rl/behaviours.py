"""How a trace reasons, by named markers in its text: a rough count, good for seeing a trend over training.

The behaviours and the idea of counting them: Gandhi et al., Cognitive Behaviors that Enable Self-Improving Reasoners
(arXiv 2503.01307), who had a language model judge. Words are cheaper, and easier to fool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

BEHAVIOURS: Mapping[str, re.Pattern[str]] = {
    "checks itself": re.compile(r"\b(check|verif(y|ies|ied)|double[- ]check|let me confirm|to confirm)\b", re.I),
    "goes back": re.compile(r"\b(wait|no|actually|try again|instead|that('s| is) (wrong|not right)|backtrack)\b", re.I),
    "sets sub-goals": re.compile(r"\b(first|step \d+|next,|sub-?goal|break (it|this) down|let's start)\b", re.I),
}
"""A behaviour, and what a trace that shows it says."""


def behaviour_shares(texts: Iterable[str]) -> dict[str, float]:
    """Share of the texts that show each behaviour; 0 without any text."""
    found = list(texts)
    return {
        name: sum(pattern.search(text) is not None for text in found) / max(1, len(found))
        for name, pattern in BEHAVIOURS.items()
    }
