"""Models and finished rollouts for `benchmarks.train_throughput`, the same for every side that is measured."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.rollouts import Rollout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MODELS = ("pocket", "smollm2-135m")
END = 1
"""Id of the end of text, in both vocabularies."""
FIRST_WORD = 8
"""Ids below are special."""


@dataclass(frozen=True, slots=True)
class Size:
    """A batch: `completions` of one optimizer step, their lengths log-normal with `mean` tokens, cut at `longest`."""

    completions: int
    group: int
    mean: int
    longest: int
    prompt: tuple[int, int]  # least and most tokens, uniform
    steps: int  # measured, after one that warms up

    @property
    def groups(self) -> int:
        return self.completions // self.group

    @property
    def longest_document(self) -> int:
        return self.prompt[1] + self.longest


GPU = Size(completions=512, group=16, mean=400, longest=1536, prompt=(40, 120), steps=3)
CPU = Size(completions=16, group=8, mean=40, longest=160, prompt=(6, 20), steps=1)
SPREAD = 0.45
"""Standard deviation of the logarithm of a length: the longest of 512 is about 3.5 times the mean."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Finished rollouts, groups side by side: token ids and a reward for every completion."""

    prompts: list[list[int]]
    completions: list[list[int]]
    rewards: list[float]

    @property
    def tokens(self) -> int:
        """Of prompts and completions; padding is no token."""
        return sum(map(len, self.prompts)) + sum(map(len, self.completions))

    @property
    def padded(self) -> int:
        """Tokens of the rectangle of the longest prompt and the longest completion."""
        return len(self.prompts) * (max(map(len, self.prompts)) + max(map(len, self.completions)))


def make_batch(size: Size, vocabulary: int, step: int, dead: float) -> Batch:
    """The rollouts of step `step`, random ids. `dead`: the share of groups in which all rewards are equal."""
    rng = np.random.default_rng((17, step))
    lengths = np.exp(rng.normal(np.log(size.mean) - SPREAD**2 / 2, SPREAD, size.completions))
    completions = [
        [*rng.integers(FIRST_WORD, vocabulary, length - 1).tolist(), END]
        for length in lengths.round().astype(int).clip(2, size.longest)
    ]
    prompts, rewards = [], []
    for group in range(size.groups):
        prompt = rng.integers(FIRST_WORD, vocabulary, rng.integers(size.prompt[0], size.prompt[1] + 1)).tolist()
        prompts += [prompt] * size.group
        right = 0 if group < round(dead * size.groups) else int(rng.integers(1, size.group))
        rewards += rng.permutation([1.0] * right + [0.0] * (size.group - right)).tolist()
    return Batch(prompts, completions, rewards)


def as_rollouts(batch: Batch, group: int) -> list[Rollout]:
    """The batch as the trainer's own rollouts, without the engine's log-probabilities: each has ratio 1."""
    from reasoning.types import FinishReason, Generation, SampleKey
    from verifiers.base import Status, Verdict

    found = []
    for index, (prompt, completion) in enumerate(zip(batch.prompts, batch.completions, strict=True)):
        generation = Generation(
            key=SampleKey(f"task-{index // group}", index % group, len(completion)),
            prompt_ids=tuple(prompt),
            completion_ids=tuple(completion),
            thinking=(),
            injected=(),
            answer_start=0,
            text="",
            answer_text="",
            finish_reason=FinishReason.ANSWERED,
            bound=False,
            forced=False,
            escaped=False,
            looped=False,
            waits=0,
            seed=0,
            decoded_tokens=len(completion),
            cached_tokens=0,
            logprobs=(nan,) * len(completion),
        )
        verdict = Verdict(Status.CORRECT if batch.rewards[index] else Status.WRONG, None, "", "none")
        found.append(Rollout(generation, verdict))
    return found


def model_folder(name: str, folder: Path) -> Path:
    """A model on disk: the bundled one, or random weights of the published shape of SmolLM2-135M."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    if name == "pocket":
        from reasoning.model_files import POCKET

        return Path(POCKET)
    out = folder / name
    if out.exists():
        return out
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    unfinished = folder / f"{name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(unfinished)
    _tokenizer(config.vocab_size).save_pretrained(unfinished)
    os.replace(unfinished, out)
    return out


def vocabulary_of(folder: Path) -> int:
    """Ids that a batch may hold: those that the tokenizer has a word for."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return len(tokenizer)


def _tokenizer(size: int) -> PreTrainedTokenizerFast:
    """One word for each id; no text is ever split with it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words: dict[str, int] = {"<pad>": 0, "<end>": END} | {f"w{index}": index for index in range(2, size)}
    core: Any = Tokenizer(WordLevel(vocab=words, unk_token="<pad>"))
    core.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")
