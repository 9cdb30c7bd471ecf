"""Whole training steps, generation, scoring and update, ours against stock TRL's GRPOTrainer, in one run.

    python -m benchmarks.train_end_to_end --json FILE

The bundled model on countdown: the same tasks, prompts, verifier, completions a step and bound on their length. Ours is
`python -m reasoning.train`; TRL's is its own `train()`, with its defaults (transformers' generate) and with its best
flags (vLLM in the same process, bfloat16 weights, activations kept). Ours is measured with one engine and with several
(`engine.replicas`), which TRL does not have. Every side is a process of its own with a time limit. What is compared are
completions and sampled tokens a second, over the steps after the first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.train_cells import report, run_cells

SIDE_LIMITS = {"ours": 240.0, "ours-replicas": 240.0, "trl-defaults": 180.0, "trl-vllm": 240.0}
"""Seconds that each side may take."""
STEPS = 4


def settings(cuda: bool) -> dict[str, Any]:
    """One configuration for all sides; small on the CPU."""
    return {
        "budget": 1024 if cuda else 64,
        "max_answer_tokens": 24,  # an answer has 12: completions of TRL, which nothing closes, end little later
        "limit": 256 if cuda else 16,
        "countdown": {"levels": [4 if cuda else 3]},
        "held_out": {"limit": 2, "budgets": [16]},
        "checks": {"prompts": 2, "generations": 2},
        "grpo": {
            "learning_rate": 1e-6,
            "num_generations": 8,
            "per_device_train_batch_size": 256 if cuda else 32,
            "max_steps": STEPS,
        },
    }


def ours(config: Path, folder: Path) -> None:
    """With one engine."""
    report(_ours("ours", config, folder / "ours"))


def ours_replicas(config: Path, folder: Path) -> None:
    """With several engines on the device."""
    import torch

    replicas, cache_gb = (4, 8) if torch.cuda.is_available() else (2, 0.5)
    options = ["--engine.replicas", str(replicas), "--engine.kv_cache_gb", str(cache_gb)]
    report(_ours(f"ours, {replicas} engines", config, folder / "replicas", *options))


def _ours(name: str, config: Path, out: Path, *options: str) -> dict[str, Any]:
    """The command, and what its metrics say of each step."""
    command = ["reasoning.train", str(config), "--out", str(out), *options]
    subprocess.run([sys.executable, "-u", "-m", *command], check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "time/step" in line]
    completions = json.loads(config.read_text())["grpo"]["per_device_train_batch_size"]
    tokens = [line["completion_tokens"] * completions for line in steps]
    phases = {
        name: statistics.median(line[f"time/{name}"] for line in steps[1:])
        for name in ("generate", "score", "sync", "pack", "update", "idle")
    }
    rewards = [line["reward"] for line in steps]
    return _measured(name, completions, [line["time/step"] for line in steps], tokens, rewards, phases=phases)


def trl_defaults(config: Path, folder: Path) -> None:
    """GRPOConfig as it is: micro-batches of 8, float32 under autocast, checkpointing, transformers' generate."""
    report(_trl("trl defaults", config, folder, 8, {}))


def trl_vllm(config: Path, folder: Path) -> None:
    """Its best flags."""
    flags = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "gradient_checkpointing": False,
        "model_init_kwargs": {"dtype": "bfloat16"},
    }
    report(_trl("trl best flags", config, folder, 128, flags))


SIDES = {"ours": ours, "ours-replicas": ours_replicas, "trl-defaults": trl_defaults, "trl-vllm": trl_vllm}


def _trl(name: str, config: Path, folder: Path, micro_batch: int, flags: dict[str, Any]) -> dict[str, Any]:
    """Stock TRL on the tasks that `config` names, their prompts as our trainer renders them."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from reasoning.config import load_settings
    from reasoning.train_config import TrainConfig
    from reasoning.train_plan import plan_training

    plan = plan_training(load_settings(TrainConfig, str(config), {"out": str(folder / "plan")}))
    cuda = torch.cuda.is_available()
    tokenizer: Any = plan.rollouts.tokenizer
    ids = list(plan.rollouts.rendered)
    prompts = [str(tokenizer.decode(list(plan.rollouts.rendered[task].prompt_ids))) for task in ids]
    completions = plan.args.per_device_train_batch_size
    seconds: list[float] = []
    tokens: list[int] = []
    rewards: list[float] = []
    clock = {"last": 0.0}

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock["last"] = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            if cuda:
                torch.cuda.synchronize()
            now = time.perf_counter()
            seconds.append(now - clock["last"])
            clock["last"] = now
            print(f"    step {len(seconds)}: {seconds[-1]:.2f} s", flush=True)

    grade = _accuracy({task.id: task for task in plan.rollouts.tasks}, plan.rollouts.markers.close_ids, tokenizer)

    def accuracy(completion_ids: list[list[int]], task: list[str], **_: Any) -> list[float | None]:
        found = grade(completion_ids, task)
        tokens.append(sum(map(len, completion_ids)))
        rewards.append(statistics.mean(found))
        return [*found]

    args = GRPOConfig(
        output_dir=str(folder / name.replace(" ", "-")),
        max_steps=STEPS,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=completions // micro_batch,
        num_generations=plan.args.num_generations,
        max_completion_length=plan.settings.max_completion_length,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=not cuda,
        bf16=None if cuda else False,
        **flags,
    )
    trainer: Any = GRPOTrainer(
        model=plan.rollouts.model.source,
        reward_funcs=accuracy,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": prompts, "task": ids}),
        processing_class=tokenizer,
        callbacks=[Clock()],
    )
    trainer.train()
    return _measured(name, completions, seconds, tokens, rewards)


def _accuracy(
    tasks: dict[str, Any], close_ids: Sequence[int], tokenizer: Any
) -> Callable[[list[list[int]], list[str]], list[float]]:
    """Our verifier on what follows the closing marker."""
    from verifiers import grade
    from verifiers.base import Status

    close = list(close_ids)

    def reward(ids: list[int], name: str) -> float:
        end = next((at + len(close) for at in range(len(ids)) if ids[at : at + len(close)] == close), None)
        answer = "" if end is None else str(tokenizer.decode(ids[end:], skip_special_tokens=True))
        task = tasks[name]
        return float(grade(task.verifier, answer, task.reference, task.meta).status is Status.CORRECT)

    return lambda completion_ids, names: [reward(*one) for one in zip(completion_ids, names, strict=True)]


def _measured(
    side: str,
    completions: int,
    seconds: Sequence[float],
    tokens: Sequence[float],
    rewards: Sequence[float],
    **others: Any,
) -> dict[str, Any]:
    """Medians over the steps after the first."""
    return {
        "side": side,
        "seconds": statistics.median(seconds[1:]),
        "each_s": list(seconds),
        "completions_per_s": completions / statistics.median(seconds[1:]),
        "tokens_per_s": statistics.median(count / spent for count, spent in zip(tokens[1:], seconds[1:], strict=True)),
        "completion_tokens": statistics.mean(tokens) / completions,
        "reward": statistics.mean(rewards),
        **others,
    }


def _describe(cell: dict[str, Any]) -> str:
    if "error" in cell:
        return f"{cell['side']}: {cell['error']}"
    return (
        f"{cell['side']}: {cell['seconds']:.2f} s a step, reward {cell['reward']:.2f}, "
        f"{cell['completions_per_s']:,.0f} completions/s of {cell['completion_tokens']:.0f} tokens, "
        f"{cell['tokens_per_s']:,.0f} sampled tokens/s"
    )


def summarise(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many times TRL's our rates are, in completions and in sampled tokens a second."""
    measured = {cell["side"]: cell for cell in cells if "error" not in cell}
    return {
        f"{ours} / {trl}, {what}": measured[ours][what] / measured[trl][what]
        for ours in measured
        for trl in measured
        for what in ("completions_per_s", "tokens_per_s")
        if ours.startswith("ours") and trl.startswith("trl")
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=list(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        SIDES[options.side](options.folder / "grpo.json", options.folder)
        return 0
    import torch

    cuda, cells = torch.cuda.is_available(), []
    chosen = settings(cuda)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "grpo.json").write_text(json.dumps(chosen))
        for side, limit_s in SIDE_LIMITS.items():
            if side == "trl-vllm" and not cuda:
                continue
            command = ["benchmarks.train_end_to_end", "--side", side, "--folder", folder]
            cells += run_cells(side, command, limit_s, _describe)
            if options.json:
                record = {"settings": chosen, "summary": summarise(cells), "cells": cells}
                options.json.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(summarise(cells), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
