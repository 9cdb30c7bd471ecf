"""A tiny random Qwen3 checkpoint, and one real vLLM engine a session over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reasoning.engine.base import EngineSettings, Output, Request
from reasoning.engine.environment import prepare_environment
from reasoning.engine.vllm import VllmEngine

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM

prepare_environment()
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"

VOCABULARY = 64
WORDS = ("<pad>", "<eos>", "<think>", "</think>", *(f"w{i}" for i in range(4, VOCABULARY)))
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}{% if add_generation_prompt %}<think>{% endif %}"

MakeModel = Callable[[int], "Qwen3ForCausalLM"]
MakeRequest = Callable[..., Request]
Run = Callable[[list[Request]], dict[str, list[Output]]]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """A float32 model with tied embeddings; its weights are large enough to make its choices clear."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
        initializer_range=0.2,
        dtype="float32",
    )

    def make(seed: int) -> Qwen3ForCausalLM:
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def checkpoint(make_model: MakeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("qwen3")
    make_model(0).save_pretrained(folder)
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        eos_token="<eos>",
        pad_token="<pad>",
        additional_special_tokens=["<think>", "</think>"],
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> Iterator[VllmEngine]:
    settings = EngineSettings(max_num_seqs=16, kv_cache_gb=0.05, stream_interval=5)
    engine = VllmEngine(str(checkpoint), settings, max_model_len=1024, profile=True)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def request_of() -> MakeRequest:
    """Request number `n`: its own prompt and seed, whatever else is said."""

    def make(n: int, *, name: str = "", length: int = 40, max_tokens: int = 60, **changes: Any) -> Request:
        request = Request(
            id=name or f"r{n}",
            prompt_ids=tuple(4 + (n * 31 + i * 7) % 60 for i in range(length)),
            max_tokens=max_tokens,
            temperature=1.0,
            top_p=1.0,
            seed=1000 + n,
            stop_ids=(),
        )
        return replace(request, **changes)

    return make


@pytest.fixture
def run(engine: VllmEngine) -> Run:
    """Run requests together to their end: all outputs of each, in order."""

    def run_all(requests: list[Request]) -> dict[str, list[Output]]:
        outputs: dict[str, list[Output]] = {request.id: [] for request in requests}
        for request in requests:
            engine.add(request)
        while engine.unfinished:
            for output in engine.step():
                outputs[output.request_id].append(output)
        return outputs

    return run_all
