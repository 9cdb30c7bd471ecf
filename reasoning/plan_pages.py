"""A plan as people see it: lines, tables and the roofline picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from reasoning import console
from reasoning.budgets import format_budget
from reasoning.kv_cache import size_of
from reasoning.planning import BudgetPlan, Workload
from reasoning.roofline import Setup, Step, decode_step, prefill
from reasoning.techniques import Gain

HEADINGS = ("budget", "KV a request", "fit", "at once", "ms a step", "alone", "binds", "tokens/s", "time", "cost")
GAIN_HEADINGS = ("technique", "gain", "what it is", "source")


def head(name: str, setup: Setup, work: Workload) -> Iterator[str]:
    """What the plan is of, and what the model takes whatever the budget."""
    shape, cache = setup.shape, setup.cache
    yield f"{name} on {setup.hardware.title}"
    active = f", {shape.active_parameters:,} of them active a token" if shape.mixed_experts else ""
    yield (
        f"weights: {shape.parameters:,}{active}, {size_of(round(setup.weight_bytes))}; "
        f"KV cache: {cache.bytes_per_token:,.0f} B a token, {size_of(cache.capacity_bytes)} left for it"
    )
    yield (
        f"evaluation: {work.tasks:,} tasks x {work.samples:,}, prompts of {work.prompt_tokens:,} tokens, answers of "
        f"{work.answer_tokens:,}, up to {work.concurrency:,} at once; every trace uses its whole budget"
    )
    step = prefill(setup, work.prompt_tokens)
    yield f"prefill of a prompt: {milliseconds(step)} ms, bound by {step.wall}"


def rows(plans: Sequence[BudgetPlan], setup: Setup, work: Workload) -> Iterator[tuple[str, ...]]:
    """The plans under HEADINGS. `alone` is a step with one request."""
    for found in plans:
        position = work.prompt_tokens + work.decoded(found.budget) / 2
        yield (
            format_budget(found.budget),
            size_of(found.request_bytes),
            f"{found.room:,}",
            f"{found.at_once:,}",
            f"{1e3 * found.step_s:.3g}",
            milliseconds(decode_step(setup, 1, position)),
            found.wall,
            f"{found.tokens_per_s:,.0f}",
            console.duration(found.seconds),
            "-" if found.cost is None else f"{found.cost:,.2f}",
        )


def capacity_notes(plans: Sequence[BudgetPlan], work: Workload) -> Iterator[str]:
    """Where fewer run at once than there are and may."""
    wanted = min(work.concurrency, work.traces)
    for found in plans:
        if found.room < wanted:
            yield (
                f"capacity: at {format_budget(found.budget)} {found.room:,} of {wanted:,} fit at once; all would need "
                f"{size_of(wanted * found.request_bytes)} of KV cache"
            )


def gain_rows(gains: Sequence[Gain]) -> Iterator[tuple[str, ...]]:
    for gain in gains:
        yield gain.name, f"{gain.factor:.2f}x", gain.note, gain.source


def milliseconds(step: Step) -> str:
    return f"{1e3 * step.seconds:.3g}"


def draw(name: str, plans: Sequence[BudgetPlan], setup: Setup, work: Workload, out: Path) -> list[Path]:
    """The roofline of the device with the steps of the plan: .png, .svg and .json, which has the plan, too."""
    from eval.roofline_plots import Roof, RooflinePoint, roofline  # matplotlib: half a second

    device, devices = setup.hardware, setup.devices
    matrix = device.matrix_rate(setup.storage.layer_weight)
    roofs = [
        Roof("reached", devices * device.weights_rate, devices * matrix),
        Roof("data sheet", devices * device.bandwidth, devices * matrix / device.reached.matrix_share),
    ]
    steps = [(f"prefill of {work.prompt_tokens:,}", prefill(setup, work.prompt_tokens))]
    for found in plans:
        position = work.prompt_tokens + work.decoded(found.budget) / 2
        steps.append(
            (f"{found.at_once:,} decode at {format_budget(found.budget)}", decode_step(setup, found.at_once, position))
        )
    last = work.prompt_tokens + work.decoded(plans[-1].budget) / 2
    steps.append((f"one decodes at {format_budget(plans[-1].budget)}", decode_step(setup, 1, last)))
    points = [RooflinePoint(label, step.flops, step.bytes, step.seconds) for label, step in steps]
    return roofline(
        roofs,
        points,
        out,
        title=f"What binds {name} on {device.title}",
        caption=(
            "Predicted, at the mean position of each budget. Solid: the rates that programs reach; dashed: the data "
            "sheet. The drop from the solid line to a point is what waits for kernels, the host and the slower reads "
            f"of attention. Rates: {device.reached.source}."
        ),
        numbers={"model": name, "hardware": device.name, "workload": asdict(work), "plans": [asdict(p) for p in plans]},
    )
