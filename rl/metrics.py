"""A line a step, for people and for programs: what was earned, what it cost and where the time went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from reasoning.console import duration
from reasoning.files import JsonLinesWriter, read_json_lines, write_json_lines

DISAGREEMENT = 0.05
"""Mean difference of log-probabilities, in nats, that no rounding explains (bfloat16 makes about 0.01)."""

PHASES = ("generate", "score", "sync", "pack", "update", "idle")


class StepTimes:
    """Seconds of one step by phase; what no phase accounts for is idle."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] += seconds

    def finish(self, total: float) -> dict[str, float]:
        """As metrics: `time/<phase>` in seconds, adding up to `time/step`."""
        self.seconds["idle"] = max(0.0, total - sum(self.seconds.values()))
        return {"time/step": total} | {f"time/{phase}": value for phase, value in self.seconds.items()}


def throughput(
    tokens: int, update_s: float, generated: int, generate_s: float, flops_per_token: float, peak_flops: float | None
) -> dict[str, float]:
    """Real tokens a second of the update and of the engine, and the model FLOP utilisation where a peak is known."""
    rates = {}
    if update_s > 0 and tokens:
        rates["update_tokens_per_s"] = tokens / update_s
        if peak_flops:
            rates["mfu"] = tokens * flops_per_token / update_s / peak_flops
    if generate_s > 0 and generated:
        rates["generated_tokens_per_s"] = generated / generate_s
    return rates


def flops_per_token(model: Any) -> float:
    """Forward and backward, 6 a parameter that multiplies (arXiv 2001.08361): not an embedding that is only looked up.

    Of a weight that is not trained 4, since it needs no gradient. Attention is left out, and so is what gradient
    checkpointing computes again.
    """
    table = model.get_input_embeddings().weight
    looked_up = table is not model.get_output_embeddings().weight
    multiplying = [weight for weight in model.parameters() if not (looked_up and weight is table)]
    return float(sum((6 if weight.requires_grad else 4) * weight.numel() for weight in multiplying))


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """Dense bfloat16 FLOP/s of a known GPU, from TRL's table; None for other dtypes."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return None
    from trl.trainer.utils import get_peak_flops

    return get_peak_flops(torch.cuda.get_device_name(device), "bfloat16")


def seconds_left(recent: Sequence[float], cycle: int, steps: int) -> float:
    """What `steps` more steps will take, by the seconds of `recent` ones, at least one.

    Of `cycle` steps in a row only one waits for rollouts, so it is whole cycles that are looked at, and their median.
    """
    ends = range(len(recent), cycle - 1, -cycle)
    means = [fmean(recent[end - cycle : end]) for end in ends] or [fmean(recent)]
    return median(means) * steps


class MetricsLog:
    """metrics.jsonl, records in the order of steps: one a step, and one each time the held-out tasks were measured.

    Opened again, it forgets what came after `last_step`, the step of the checkpoint that is continued from; None: all.
    """

    def __init__(self, path: Path, last_step: int | None) -> None:
        known = [line for line in read_json_lines(path) if last_step is not None and line["step"] <= last_step]
        if path.exists():
            write_json_lines(path, known)
        self.measured = {line["step"] for line in known if any(name.startswith("held_out/") for name in line)}
        self._writer = JsonLinesWriter(path)

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Numbers that are not finite are written as null."""
        self._writer.append({"step": step} | finite(metrics))

    def close(self) -> None:
        self._writer.close()


def alarms(metrics: Mapping[str, float]) -> list[str]:
    """What a step's numbers say of something broken."""
    mismatch = metrics.get("sampling/sampling_logp_difference/mean", 0.0)
    if mismatch < DISAGREEMENT:
        return []
    return [
        f"engine and trainer differ by {mismatch:.2f} nats a token: the engine may hold other weights, or sample with "
        "other settings, than the trainer"
    ]


def console_line(step: int, steps: int, metrics: Mapping[str, float], left_s: float) -> str:
    """One step in one line of a terminal; `left_s` seconds are expected until the last one."""
    split = " ".join(f"{phase} {metrics[f'time/{phase}']:.1f}" for phase in PHASES if metrics[f"time/{phase}"] >= 0.05)
    failures = metrics.get("verdicts/timeout", 0.0) + metrics.get("verdicts/error", 0.0)
    parts = [
        f"step {step}/{steps}",
        f"reward {metrics['reward']:.3f}" if "reward" in metrics else None,
        f"accuracy {metrics['accuracy']:.3f}" if "accuracy" in metrics else None,
        f"{metrics['completion_tokens']:.0f} tokens" if "completion_tokens" in metrics else None,
        f"entropy {metrics['entropy']:.3f}" if "entropy" in metrics else None,
        f"grad {metrics['grad_norm']:.2f}" if "grad_norm" in metrics else "nothing to learn from",
        f"{metrics['time/step']:.1f} s ({split})",
        f"{duration(left_s)} left" if step < steps else None,
        f"update {metrics['update_tokens_per_s']:,.0f} tok/s" if "update_tokens_per_s" in metrics else None,
        f"{failures:.0%} of verdicts are timeouts or errors" if failures else None,
        f"padding {metrics['padding']:.1%}" if metrics.get("padding") else None,
        f"MFU {metrics['mfu']:.1%}" if "mfu" in metrics else None,
    ]
    return "  ".join(part for part in parts if part)


def finite(value: Any) -> Any:
    """The value, however nested, with null in the place of every number that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
