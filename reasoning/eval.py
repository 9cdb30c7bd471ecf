"""Measure how accuracy grows with thinking tokens: `python -m reasoning.eval --budgets 1k,10k,50k`."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.eval --budgets 1k,10k,50k", file=sys.stderr)
    sys.exit(2)

import argparse
import re
from collections.abc import Sequence
from textwrap import fill

from reasoning.cli import Parser, exit_with
from reasoning.config import ConfigError, flag_of, setting_paths
from reasoning.engine.environment import prepare_environment
from reasoning.eval_config import EvalConfig, load_config
from reasoning.evaluation import Command, evaluate

HELP = {
    "budgets": ("LIST", "thinking tokens, such as 1k,10k,none (1k is 1,000; none is no limit)"),
    "model": ("M", "folder, hub name, or pocket, the bundled model (default)"),
    "tasks": ("T", "countdown (default), gsm8k, math500, aime24, aime25, amc23, humaneval, mbpp, stdio, or a file"),
    "samples": ("K", "samples a task and budget (default 1)"),
    "limit": ("N", "that many tasks, after a seeded shuffle (default all; countdown 64)"),
    "seed": ("S", "decides tasks and samples (default 0)"),
    "sampling.temperature": ("X", "default: what the model's generation_config.json says, else 1"),
    "sampling.top_p": ("X", "likewise"),
    "sampling.top_k": ("N", "likewise, else off"),
    "sampling.min_p": ("X", "likewise, else off"),
    "closing": ("C", "what ends cut thinking: bare (default), qwen, s1, boxed, code, none, or a text"),
    "max_answer_tokens": ("N", "room for the answer (default: what the model's config.json asks for, else 1024)"),
    "out": ("DIR", "run folder (default runs/<tasks>--<model>--<time>)"),
}


def parser() -> Parser:
    """Every setting is an option; the everyday ones are in the help."""
    others = [path for path in setting_paths(EvalConfig) if path not in (*HELP, "profile")]
    epilog = "any other setting, in YAML or as --section.key VALUE:\n"
    epilog += fill(", ".join(others), 98, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    options = Parser("reasoning.eval", "Measure how a model's accuracy grows with its thinking tokens.", epilog)
    options.usage = "%(prog)s [eval.yaml] --budgets LIST [options]"
    options.add_argument("config", nargs="?", metavar="eval.yaml", help="settings; options win over it")
    for path in [*HELP, *others]:
        metavar, text = HELP.get(path, ("VALUE", argparse.SUPPRESS))
        # A default of SUPPRESS leaves settings out that were not typed, so that the file's value stands.
        action = "append" if path == "policy" else "store"  # the replay takes several; a second one must not go unseen
        options.add_argument(
            flag_of(path), dest=path, metavar=metavar, help=text, default=argparse.SUPPRESS, action=action
        )
        if flag_of(path) != f"--{path}":
            options.add_argument(f"--{path}", dest=path, help=argparse.SUPPRESS, default=argparse.SUPPRESS)
    text = "first run the reference solutions of code tasks, and leave out what fails"
    options.add_argument(
        "--calibrate", dest="data.calibrate", action="store_const", const="true", help=text, default=argparse.SUPPRESS
    )
    text = "also note every step of the engine: speed by position, bandwidth, latencies"
    options.add_argument(
        "--profile", dest="profile", action="store_const", const="true", help=text, default=argparse.SUPPRESS
    )
    options.add_argument("--resume", action="store_true", help="continue the run in --out, or start it")
    options.add_argument("--clean", action="store_true", help="delete the run in --out and start over")
    options.add_argument("--dry-run", action="store_true", help="check everything, show the first prompt, and stop")
    options.add_argument("--quiet", action="store_true", help="no progress, only the result")
    return options


def parse(arguments: Sequence[str]) -> tuple[EvalConfig, Command]:
    """The settings, and how to go about them.

    Raises:
        ConfigError: an option or a value that cannot be used.
    """
    given = vars(parser().parse(arguments))
    switches = {name: given.pop(name) for name in ("resume", "clean", "dry_run", "quiet")}
    if switches["resume"] and switches["clean"]:
        raise ConfigError("--resume continues a run and --clean deletes it; give one of them")
    if policies := given.pop("policy", None):
        if len(policies) > 1:
            raise ConfigError(f"a run is sampled under one policy: give one of {', '.join(policies)}")
        given["policy"] = policies[0]
    file = given.pop("config")
    if file is not None and re.fullmatch(r"none|[\d_.]+k?", file):
        raise ConfigError(f"'{file}' stands alone; separate budgets by commas, as in --budgets 1k,{file}")
    return load_config(file, given), Command(tuple(arguments), **switches)


def main(arguments: Sequence[str]) -> int:
    config, command = parse(arguments)
    if not command.dry_run:
        prepare_environment()
    return evaluate(config, command)


if __name__ == "__main__":
    exit_with(main)
