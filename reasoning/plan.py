"""What an evaluation would take, with no weights loaded: `python -m reasoning.plan --model M --hardware H`."""

from __future__ import annotations

import math
import sys

if not __package__:
    print("run this as a module: python -m reasoning.plan --model M --hardware H", file=sys.stderr)
    sys.exit(2)

from collections.abc import Sequence
from pathlib import Path

from reasoning import console, plan_pages
from reasoning.budgets import parse_budgets
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.config import ConfigError
from reasoning.hardware import HARDWARE, find_hardware
from reasoning.model_shape import load_shape
from reasoning.planning import KV_BYTES, WEIGHT_BYTES, Workload, make_setup, plan
from reasoning.techniques import rank

COUNTS = {
    "tasks": "tasks of the evaluation",
    "samples": "samples a task",
    "prompt-tokens": "tokens of a prompt",
    "answer-tokens": "room of an answer",
    "concurrency": "most requests at once",
}


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse(arguments)
    counts = {name.replace("-", "_"): getattr(given, name.replace("-", "_")) for name in COUNTS}
    if wrong := next((name for name, value in counts.items() if value < 1), None):
        raise ConfigError(f"--{wrong.replace('_', '-')} {counts[wrong]}: give a number of at least 1")
    if given.price_per_hour is not None and not 0 < given.price_per_hour < math.inf:
        raise ConfigError(f"--price-per-hour {given.price_per_hour:g}: give a price above 0")
    work = Workload(parse_budgets(given.budgets), **counts, price_per_hour=given.price_per_hour)
    setup = make_setup(load_shape(given.model), find_hardware(given.hardware), given.weight_dtype, given.kv_dtype)
    plans = plan(setup, work)
    name = _name(given.model)
    for line in plan_pages.head(name, setup, work):
        console.say(line)
    console.print_rows(plan_pages.HEADINGS, plan_pages.rows(plans, setup, work))
    for line in plan_pages.capacity_notes(plans, work):
        console.say(line)
    ranking = rank(setup, work)
    for title, gains in (
        ("would help the evaluation", ranking.could),
        ("in use already, and what it brings", ranking.in_use),
        ("in training, the others in use", ranking.training),
    ):
        console.say(f"{title}:")
        console.print_rows(plan_pages.GAIN_HEADINGS, plan_pages.gain_rows(gains), wrap=True)
    out = given.out or Path("plans", f"{Path(name).name}--{setup.hardware.name}")
    console.say(f"device:       {setup.hardware.source}; {setup.hardware.reached.source}")
    try:
        drawn = plan_pages.draw(name, plans, setup, work, out)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {error.strerror}; give another path") from None
    console.say(f"plot:         {drawn[0]}")
    return ExitCode.DONE


def _name(model: str) -> str:
    path = Path(model).expanduser()
    if not path.exists():
        return model
    return (path.parent if path.is_file() else path).resolve().name


def _parser() -> Parser:
    parser = Parser("reasoning.plan", "Memory, speed, time and cost of an evaluation; no weights are loaded.")
    parser.add_argument("--model", required=True, help="folder with a config.json, hub name, or pocket")
    parser.add_argument("--hardware", required=True, help=f"{', '.join(HARDWARE)}, or local (measured now)")
    parser.add_argument("--budgets", default="1k,10k,50k", help="thinking tokens, separated by commas (1k is 1,000)")
    for name, what in COUNTS.items():
        default = getattr(Workload(()), name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{what} ({default})")
    parser.add_argument("--weight-dtype", metavar="TYPE", help=f"{', '.join(WEIGHT_BYTES)}; else the checkpoint's")
    parser.add_argument("--kv-dtype", metavar="TYPE", help=f"{', '.join(KV_BYTES)}; else the checkpoint's")
    parser.add_argument("--price-per-hour", type=float, metavar="PRICE", help="of the device, in your currency")
    parser.add_argument("--out", type=Path, metavar="PATH", help="picture, without suffix (plans/MODEL--HARDWARE)")
    return parser


if __name__ == "__main__":
    exit_with(main)
