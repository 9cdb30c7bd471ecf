"""What the commands share: parsing that suggests the option that was meant, and errors as exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import IntEnum
from typing import NoReturn

from reasoning.budgets import BudgetError
from reasoning.config import ConfigError
from reasoning.engine.base import EngineError
from reasoning.files import StoredDataError
from reasoning.prompts import PromptError
from reasoning.run_folder import RunFolderError
from reasoning.tasks import TaskError
from verifiers.sandbox import SandboxUnavailable


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1  # unexpected; the message names the log
    USAGE = 2  # settings or input that cannot be used; nothing was started
    DOUBTFUL = 3  # done, but too many samples failed or a budget was not honoured
    INTERRUPTED = 130


USAGE_ERRORS = (
    ConfigError,
    TaskError,
    PromptError,
    BudgetError,
    RunFolderError,
    StoredDataError,
    SandboxUnavailable,
)
"""Errors that the user can correct; their messages are ready to show."""


class Parser(argparse.ArgumentParser):
    """Long options only in full; what is wrong is raised as `ConfigError`."""

    def __init__(self, command: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"python -m {command}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=28, width=100),
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`, but the first thing it does not know is named, with the nearest that it knows."""
        known, unknown = self.parse_known_args(arguments)
        option = next((word for word in unknown if word.startswith("-")), None)
        if option is not None:
            name = option.partition("=")[0]
            options = [spelling for action in self._actions for spelling in action.option_strings]
            close = get_close_matches(name, options, n=1)
            raise ConfigError(f"unknown option {name}." + (f" Did you mean {close[0]}?" if close else " See --help."))
        if unknown:
            raise ConfigError(f"unexpected argument '{unknown[0]}'. See --help.")
        return known

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message.removeprefix("argument "))


def exit_with(command: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command on the process's arguments and end the process with its exit code."""
    try:
        code = command(sys.argv[1:])
        sys.stdout.flush()
    except USAGE_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        code = ExitCode.USAGE
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        code = ExitCode.FAILED
    except BrokenPipeError:  # whoever read the output has gone; nothing more can be said there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = ExitCode.INTERRUPTED
    sys.exit(code)
