"""Train a model with GRPO on verifiable rewards: `python -m reasoning.train configs/grpo.yaml`."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.train configs/grpo.yaml", file=sys.stderr)
    sys.exit(2)

import argparse
import re
from collections.abc import Sequence
from textwrap import fill

from reasoning.cli import Parser, exit_with
from reasoning.config import ConfigError, flag_of, load_settings, setting_paths
from reasoning.engine.environment import prepare_environment
from reasoning.train_config import TrainConfig
from reasoning.training import TrainCommand, train

HELP = {
    "budget": ("N", "thinking tokens of a rollout, such as 256 or 4k"),
    "model": ("M", "folder, hub name, or pocket, the bundled model (default)"),
    "tasks": ("T", "countdown (default), gsm8k, or another set or file that reasoning.eval knows"),
    "limit": ("N", "that many training tasks, after a seeded shuffle"),
    "seed": ("S", "decides tasks, rollouts and weights (default 0)"),
    "out": ("DIR", "run folder (default runs/<tasks>-grpo--<model>--<time>)"),
}


def parser(arguments: Sequence[str]) -> Parser:
    """Every setting is an option. The keys of GRPOConfig are options as they are typed: `--grpo.learning_rate 1e-6`."""
    typed = sorted({word.partition("=")[0][2:] for word in arguments if re.match(r"--grpo\.\w", word)})
    others = [path for path in setting_paths(TrainConfig) if path not in (*HELP, "grpo", "rewards")]
    epilog = "--grpo.KEY VALUE sets a key of TRL's GRPOConfig; any other setting, in YAML or as --section.key VALUE:\n"
    epilog += fill(", ".join(others), 98, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    options = Parser("reasoning.train", "Train a model with GRPO on verifiable rewards.", epilog)
    options.usage = "%(prog)s grpo.yaml [options]"
    options.add_argument("config", nargs="?", metavar="grpo.yaml", help="settings; options win over it")
    for path in [*HELP, *others, *typed]:
        metavar, text = HELP.get(path, ("VALUE", argparse.SUPPRESS))
        flag = f"--{path}" if path in typed else flag_of(path)
        # A default of SUPPRESS leaves settings out that were not typed, so that the file's value stands.
        options.add_argument(flag, dest=path, metavar=metavar, help=text, default=argparse.SUPPRESS)
        if flag != f"--{path}":
            options.add_argument(f"--{path}", dest=path, help=argparse.SUPPRESS, default=argparse.SUPPRESS)
    options.add_argument("--resume", action="store_true", help="continue the run in --out, or start it")
    options.add_argument("--clean", action="store_true", help="delete the run in --out and start over")
    options.add_argument("--dry-run", action="store_true", help="check everything, show the first prompt, and stop")
    return options


def parse(arguments: Sequence[str]) -> tuple[TrainConfig, TrainCommand]:
    """The settings, and how to go about them.

    Raises:
        ConfigError: an option or a value that cannot be used.
    """
    given = vars(parser(arguments).parse(arguments))
    switches = {name: given.pop(name) for name in ("resume", "clean", "dry_run")}
    if switches["resume"] and switches["clean"]:
        raise ConfigError("--resume continues a run and --clean deletes it; give one of them")
    file = given.pop("config")
    if file is None and "budget" not in given:
        raise ConfigError("name the settings, as in python -m reasoning.train configs/grpo.yaml, or give a --budget")
    return load_settings(TrainConfig, file, given, _belongs), TrainCommand(tuple(arguments), **switches)


def _belongs(key: str) -> str | None:
    """The section of a key that TRL's users write at the top."""
    prepare_environment()
    from rl.arguments import is_known

    return "grpo" if is_known(key) else None


def main(arguments: Sequence[str]) -> int:
    config, command = parse(arguments)
    prepare_environment()  # also before a dry run: the checks of the trainer's settings import torch
    return train(config, command)


if __name__ == "__main__":
    exit_with(main)
