"""The sides that `benchmarks.train_throughput` measures: the packed update, and TRL's own trainer under several flags.

What is timed is the train phase: from finished rollouts (ids and rewards) to updated weights, the device idle again.
TRL's is its own `train()`: the clock starts when its `rollout_func` hands over the rollouts, and stops at the end of
the step. So padding, its forward pass for old log-probabilities where it makes one, rewards that are only read,
advantages, micro-batches, clipping, optimizer and schedule are all its own.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.train_batches import CPU, GPU, Batch, as_rollouts, make_batch, model_folder, vocabulary_of
from benchmarks.train_cells import report

MICRO_BATCHES = (512, 256, 128, 64, 32, 16, 8)
DEAD = 0.3


def run_side(side: str, model: str, folder: Path, micro_batch: int | None) -> None:
    """Measure one side, a line of JSON for each cell as soon as it is there."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    SIDES[side](model, folder, micro_batch)


def ours(model: str, folder: Path, _: int | None) -> None:
    """The packed update as the trainer sets it up; compiled and not, without and with dead groups."""
    from rl.memory import default_row_tokens, gpu_bytes

    source, cuda = model_folder(model, folder), torch.cuda.is_available()
    rows = max(_size().longest_document, default_row_tokens(str(source), gpu_bytes()))
    with _cell("ours", rows=rows, dead=0.0) as finish:
        finish(_packed(source, rows, compiled=cuda, dead=0.0))
    with _cell("ours", rows=rows, dead=DEAD) as finish:
        finish(_packed(source, rows, compiled=cuda, dead=DEAD))
    if not cuda:
        return
    with _cell("ours, not compiled", rows=rows, dead=0.0) as finish:
        finish(_packed(source, rows, compiled=False, dead=0.0))
    for other in (16384, 32768, 65536):
        if other != rows:
            with _cell(f"ours, rows of {other:,}", rows=other, dead=0.0) as finish:
                finish(_packed(source, other, compiled=True, dead=0.0))


def trl_defaults(model: str, folder: Path, _: int | None) -> None:
    """Stock TRL as GRPOConfig has it: micro-batches of 8, float32 weights under autocast, checkpointing."""
    source = model_folder(model, folder)
    with _cell("trl defaults", micro_batch=8) as finish:
        finish(_trl(source, folder, 8, {}))
    with _cell("trl defaults, rollouts from vLLM", micro_batch=8) as finish:
        finish(_trl(source, folder, 8, {}, from_vllm=True, steps=1))


def trl_best(model: str, folder: Path, _: int | None) -> None:
    """Stock TRL with its best flags, in the micro-batch that is fastest of those that fit."""
    source, best = model_folder(model, folder), float("inf")
    for micro_batch in MICRO_BATCHES:
        if micro_batch > _size().completions:
            continue
        with _cell("trl best flags", micro_batch=micro_batch) as finish:
            found = _trl(source, folder, micro_batch, _best())
            finish(found)
            if found["seconds"] > 1.05 * best:
                return
            best = min(best, found["seconds"])


def trl_compiled(model: str, folder: Path, micro_batch: int | None) -> None:
    """The same with torch_compile, in the micro-batch that was fastest without."""
    chosen = micro_batch or 8
    with _cell("trl best flags", micro_batch=chosen, torch_compile=True) as finish:
        finish(_trl(model_folder(model, folder), folder, chosen, {**_best(), "torch_compile": True}))


SIDES: dict[str, Callable[[str, Path, int | None], None]] = {
    "ours": ours,
    "trl-defaults": trl_defaults,
    "trl-best": trl_best,
    "trl-compiled": trl_compiled,
}


def _best() -> dict[str, Any]:
    """Activations kept, and on a GPU the weights themselves in bfloat16; no correction for vLLM, which ours has."""
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    return {"gradient_checkpointing": False, "model_init_kwargs": {"dtype": dtype}}


def _size() -> Any:
    return GPU if torch.cuda.is_available() else CPU


@contextmanager
def _cell(name: str, **settings: Any) -> Generator[Callable[[dict[str, Any]], None]]:
    """A measurement that may fail without losing the others."""
    print(f"... {name} {settings}", flush=True)
    started = time.perf_counter()

    def finish(result: dict[str, Any]) -> None:
        report({"side": name, **settings, **result, "cell_s": time.perf_counter() - started})

    try:
        yield finish
    except Exception as error:  # noqa: BLE001 - whatever it was, the next cell is another one
        finish({"error": f"{type(error).__name__}: {str(error)[:500]}"})
    finally:
        torch._dynamo.reset()  # or the next size of a row would be compiled as one of many
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def _measured(batches: list[Batch], seconds: list[float], **others: Any) -> dict[str, Any]:
    """Medians over the steps after the first."""
    rates = [batch.tokens / spent for batch, spent in zip(batches[1:], seconds[1:], strict=True)]
    return {
        "tokens_per_s": statistics.median(rates),
        "seconds": statistics.median(seconds[1:]),
        "each_s": seconds,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
        **others,
    }


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _batches(source: Path, dead: float) -> list[Batch]:
    size, vocabulary = _size(), vocabulary_of(source)
    return [make_batch(size, vocabulary, step, dead) for step in range(size.steps + 1)]


def _packed(source: Path, row_tokens: int, *, compiled: bool, dead: float) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM

    from rl.advantages import group_advantages
    from rl.generations import Generation, GenerationSettings
    from rl.losses import Objective
    from rl.masters import Masters
    from rl.memory import Shape, free_bytes, plan_memory
    from rl.scorer import Scorer
    from rl.start import check_model
    from rl.update import PackedUpdate
    from rl.windows import window

    size, cuda = _size(), torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    model: Any = AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.bfloat16 if cuda else torch.float32, attn_implementation="packed"
    )
    check_model(model, size.longest_document)
    threads = 1 if cuda else 2
    memory = plan_memory(Shape.of(model), row_tokens, threads, free_bytes(device), asked=None, reference=False)
    print(memory.describe(), flush=True)
    if memory.checkpointing:
        model.gradient_checkpointing_enable()
    model.to(device).train()
    masters = Masters(list(model.parameters()))
    optimizer = torch.optim.AdamW(masters.tensors, lr=1e-6, weight_decay=0.0, fused=True)
    objective = Objective()
    update = PackedUpdate(
        Scorer(model, 1.0, size.longest_document),
        objective,
        masters,
        row_tokens=row_tokens,
        threads=threads,
        compiled=compiled,
    )
    settings = GenerationSettings(size.groups, size.group, 1, "group", (1.0,), 0, False, 1.0, 0)
    batches, seconds, metrics = _batches(source, dead), [], []
    for number, batch in enumerate(batches):
        rollouts = as_rollouts(batch, size.group)
        _synchronize()
        started = time.perf_counter()
        found = group_advantages(np.array(batch.rewards), [one.task_id for one in rollouts], size.group, "group")
        generation = Generation(number, rollouts, batch.rewards, found.values.tolist(), {})
        rows = update.pack(window(generation, settings, objective, 0))
        packed = time.perf_counter() - started
        metrics.append(update.step(rows, optimizer, 1.0) | {"pack_s": packed})
        _synchronize()
        seconds.append(time.perf_counter() - started)
    return _measured(
        batches,
        seconds,
        compiled=compiled,
        checkpointing=memory.checkpointing,
        row_padding=metrics[-1]["padding"],
        packed_rows=metrics[-1]["rows"],
        pack_s=metrics[-1]["pack_s"],
        first_loss=metrics[0]["loss"],
        first_grad_norm=metrics[0]["grad_norm"],
    )


def _trl(
    source: Path,
    folder: Path,
    micro_batch: int,
    flags: dict[str, Any],
    *,
    from_vllm: bool = False,
    steps: int | None = None,
) -> dict[str, Any]:
    """Stock TRL on the same rollouts. `from_vllm`: with the correction that it makes by default for those of vLLM."""
    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    size, cuda = _size(), torch.cuda.is_available()
    batches, seconds = _batches(source, 0.0)[: (steps or size.steps) + 1], []
    waiting = iter(batches)
    clock = {"started": 0.0}

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            _synchronize()
            seconds.append(time.perf_counter() - clock["started"])
            print(f"    step {len(seconds)}: {seconds[-1]:.2f} s", flush=True)

    def rollout_func(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        batch = next(waiting)
        assert len(prompts) == len(batch.prompts)
        rollouts = {
            "prompt_ids": batch.prompts,
            "completion_ids": batch.completions,
            "logprobs": [[float("nan")] * len(ids) for ids in batch.completions] if from_vllm else None,
            "outcome": batch.rewards,
        }
        _synchronize()
        clock["started"] = time.perf_counter()
        return rollouts

    def outcome_reward(outcome: list[float | None], **_: Any) -> list[float | None]:
        return outcome

    args = GRPOConfig(
        output_dir=str(folder / "trl"),
        max_steps=len(batches),
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=size.completions // micro_batch,
        num_generations=size.group,
        max_completion_length=size.longest,
        report_to="none",
        save_strategy="no",
        logging_first_step=True,
        disable_tqdm=True,
        use_cpu=not cuda,
        bf16=None if cuda else False,
        **flags,
    )
    trainer: Any = GRPOTrainer(
        model=str(source),
        reward_funcs=outcome_reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [f"task {number}" for number in range(size.groups * 2)]}),
        processing_class=AutoTokenizer.from_pretrained(source),
        rollout_func=rollout_func,
        callbacks=[Clock()],
    )
    if from_vllm:
        trainer.use_vllm = True
        trainer.vllm_generation = _NoEngine()
        trainer._last_loaded_step = -1
    trainer.train()
    first: dict[str, Any] = next((line for line in trainer.state.log_history if "grad_norm" in line), {})
    return _measured(
        batches,
        seconds,
        padded_per_real=statistics.mean(batch.padded / batch.tokens for batch in batches),
        weights=str(trainer.model.dtype),
        attention=trainer.model.config._attn_implementation,
        first_loss=first.get("loss"),
        first_grad_norm=first.get("grad_norm"),
    )


class _NoEngine:
    """There is no engine to push weights to."""

    def sync_weights(self) -> None:
        return
