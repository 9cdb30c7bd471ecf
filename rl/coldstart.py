"""Supervised warm-up that makes the bundled model from random weights: `python -m rl.coldstart configs/coldstart.yaml`.

Training texts (`rl.traces`) are written while the model trains, packed without padding (`rl.packing`), and attend only
to themselves (`rl.attention`). Weights compute in bfloat16 on CUDA (float32 elsewhere), with float32 masters in the
optimizer, so what is trained is what an engine serves. Every row is a function of (seed, step) alone, whatever the
number of workers. The folder `out` gets weights, tokenizer, training.json and metrics.jsonl.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from reasoning.config import ConfigError, Section, load_settings
from rl.attention import of_row
from rl.masters import Masters
from rl.packing import Document, pack
from rl.traces import TraceMix, documents
from rl.vocabulary import ID, VOCABULARY_SIZE, build_tokenizer

ANSWER_TOKENS = 64


class ModelShape(Section):
    """Sizes of a Qwen3 model with tied embeddings."""

    hidden: int = Field(ge=8)
    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    kv_heads: int = Field(ge=1)
    head_width: int = Field(ge=8)
    mlp: int = Field(ge=8)
    context: int = Field(ge=512)
    rope_theta: float = Field(gt=0)


class Optimizer(Section):
    """AdamW with betas 0.9 and 0.95; the rate rises over `warmup_steps` and falls to `final_share` of itself."""

    learning_rate: float = Field(gt=0)
    warmup_steps: int = Field(ge=1)
    final_share: float = Field(ge=0, le=1)
    weight_decay: float = Field(ge=0)
    clip: float = Field(gt=0)


class Phase(Section):
    """Optimizer steps on documents of at most `longest` tokens, and the mix of `rl.traces.TraceMix`."""

    steps: int = Field(ge=1)
    longest: int = Field(ge=64)
    slipped: float = Field(default=0.15, ge=0, le=1)
    forced: float = Field(default=0.06, ge=0, le=1)
    open_target: float = Field(default=0.0, ge=0, le=1)


class ColdStartConfig(Section):
    """Everything that decides the weights."""

    out: str
    seed: int = Field(ge=0)
    row_tokens: int = Field(ge=256)
    row_documents: int = Field(ge=1)
    workers: int = Field(ge=0)
    log_every: int = Field(ge=1)
    model: ModelShape
    optimizer: Optimizer
    levels: dict[int, float]
    phases: tuple[Phase, ...]

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    def phase_at(self, step: int) -> Phase:
        """The phase that optimizer step `step` (from 0) belongs to."""
        for phase in self.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        raise IndexError(step)


class Rows(Dataset[dict[str, Tensor]]):
    """One packed row an optimizer step, a function of (seed, step)."""

    def __init__(self, config: ColdStartConfig) -> None:
        self.config = config

    def __len__(self) -> int:
        return self.config.steps

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """The row of optimizer step `index`."""
        phase = self.config.phase_at(index)
        rng = np.random.default_rng((self.config.seed, index))
        row = pack(self._documents(phase, rng), self.config.row_tokens, self.config.row_documents)
        return {
            "ids": torch.from_numpy(row.ids),
            "labels": torch.from_numpy(row.labels),
            "positions": torch.from_numpy(row.positions),
            "cu_seqlens": torch.from_numpy(row.cu_seqlens),
        }

    def _documents(self, phase: Phase, rng: np.random.Generator) -> Iterator[Document]:
        """Documents of all levels in their shares of a row, shuffled, with one to spare for the row's end."""
        mix = TraceMix(phase.slipped, phase.forced, phase.open_target)
        total = sum(self.config.levels.values())
        found: list[Document] = []
        for level, share in self.config.levels.items():
            owed = self.config.row_tokens * share / total
            while owed > 0:
                for document in documents(level, 4 + int(2 * owed / phase.longest), phase.longest, mix, rng):
                    found.append(document)
                    owed -= len(document.ids)
                    if owed <= 0:
                        break
        return (found[index] for index in rng.permutation(len(found)))


def build_model(shape: ModelShape) -> Qwen3ForCausalLM:
    """Random weights of the given shape, with attention inside packed documents."""
    config = Qwen3Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        intermediate_size=shape.mlp,
        max_position_embeddings=shape.context,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=ID["<|end|>"],
        pad_token_id=ID["<|pad|>"],
    )
    config.reasoning_harness = {"prompt": "compact", "max_answer_tokens": ANSWER_TOKENS}
    config._attn_implementation = "packed"
    return Qwen3ForCausalLM(config)


class AdamW:
    """AdamW with a schedule on the float32 masters of a model; the model itself computes in its own dtype."""

    def __init__(self, model: nn.Module, settings: Optimizer, total_steps: int) -> None:
        self.masters = Masters(list(model.parameters()))
        matrices = [master for master in self.masters.tensors if master.ndim > 1]
        vectors = [master for master in self.masters.tensors if master.ndim < 2]
        groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.adamw, lambda step: rate_at(step, total_steps, settings))
        self.clip = settings.clip

    def step(self) -> None:
        """One update from the gradients of the model, which are cleared."""
        self.masters.take_gradients()
        nn.utils.clip_grad_norm_(self.masters.tensors, self.clip)
        self.adamw.step()
        self.adamw.zero_grad()
        self.schedule.step()
        self.masters.put_back()


def rate_at(step: int, total_steps: int, settings: Optimizer) -> float:
    """The learning rate at a step, as a share of its peak: linear up, then linear down to `final_share`."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, total_steps - settings.warmup_steps)
    return 1 - (1 - settings.final_share) * min(1.0, done)


def row_loss(model: Qwen3ForCausalLM, row: dict[str, Tensor], longest: int) -> Tensor:
    """Mean cross-entropy in nats over the taught tokens of one packed row."""
    hidden = model.model(**of_row(row["ids"], row["positions"], row["cu_seqlens"], longest)).last_hidden_state
    return nn.functional.cross_entropy(model.lm_head(hidden[0]).float(), row["labels"])


def train(config: ColdStartConfig, out: Path) -> dict[str, Any]:
    """Train from scratch; returns what training.json records."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(config.seed)
    model = build_model(config.model).to(device, torch.bfloat16 if device.type == "cuda" else torch.float32).train()
    optimizer = AdamW(model, config.optimizer, config.steps)
    loss_of = torch.compile(row_loss) if device.type == "cuda" else row_loss
    rows = DataLoader(
        Rows(config),
        batch_size=None,
        num_workers=config.workers,
        pin_memory=device.type == "cuda",
        prefetch_factor=4 if config.workers else None,
    )
    started = time.monotonic()
    with open(out / "metrics.jsonl", "w", encoding="utf-8") as log:
        for step, row in enumerate(rows):
            moved = {name: tensor.to(device, non_blocking=True) for name, tensor in row.items()}
            loss = loss_of(model, moved, config.phase_at(step).longest)
            loss.backward()
            optimizer.step()
            if step % config.log_every == 0 or step + 1 == config.steps:
                line = _progress(config, step, float(loss.detach()), time.monotonic() - started)
                log.write(json.dumps(line) + "\n")
                log.flush()
                print(
                    f"step {line['step']}/{config.steps}  loss {line['loss']:.4f}  {line['tokens_per_s']:,} tokens/s",
                    flush=True,
                )
    seconds = time.monotonic() - started
    save(model, config, out)
    return {
        "config": config.model_dump(),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "steps": config.steps,
        "tokens": config.steps * config.row_tokens,
        "seconds": round(seconds, 1),
        "last_loss": line["loss"],
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "cpu",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def _progress(config: ColdStartConfig, step: int, loss: float, seconds: float) -> dict[str, Any]:
    tokens = (step + 1) * config.row_tokens
    return {
        "step": step + 1,
        "loss": loss,
        "tokens": tokens,
        "seconds": round(seconds, 2),
        "tokens_per_s": int(tokens / seconds),
    }


def save(model: Qwen3ForCausalLM, config: ColdStartConfig, out: Path) -> None:
    """An ordinary checkpoint in bfloat16 that transformers and vLLM load without flags."""
    model.config._attn_implementation = "sdpa"
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, eos_token_id=ID["<|end|>"], pad_token_id=ID["<|pad|>"]
    )
    model.to(torch.bfloat16).save_pretrained(out)
    build_tokenizer(config.model.context).save_pretrained(out)


def main(arguments: list[str]) -> int:
    """Parse, train, write. Returns the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m rl.coldstart configs/coldstart.yaml", file=sys.stderr)
        return 2
    try:
        config = load_settings(ColdStartConfig, arguments[0], {})
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    summary = train(config, out)
    (out / "training.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    print(f"{summary['parameters']:,} parameters, {summary['tokens']:,} tokens in {summary['seconds']} s -> {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
