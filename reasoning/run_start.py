"""A folder is made ready for the samples of a run: refused when it is used, resumed, or cleaned first.

The manifest is written first and config.json last, so that a start that is killed leaves no run that looks whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reasoning.config import flatten
from reasoning.files import write_json, write_json_lines
from reasoning.records import task_line
from reasoning.run_folder import KIND, WRITTEN, RunFolder, RunFolderError, unwritable
from reasoning.types import Task

RESUMABLE = frozenset(
    {
        "out",
        "max_errors",
        "engine.max_num_seqs",
        "engine.kv_cache_gb",
        "engine.gpu_memory_utilization",
        "engine.stream_interval",
        "engine.replicas",
    }
)
"""Settings that decide speed and memory, not what is measured: a resumed run may change them."""


def prepare_run(
    folder: RunFolder,
    config: Mapping[str, Any],
    manifest: Mapping[str, Any],
    tasks: Iterable[Task],
    *,
    resume: bool,
    clean: bool,
) -> None:
    """Make a locked folder ready to receive the samples of a run.

    `manifest` has the number of `planned` samples and the hashes ending in `sha256` or `hash`. With `resume`, a folder
    of the same settings is continued and an unused one is started; with `clean`, or where no sample was finished, what
    a run left in it is deleted first. Files that no run writes are left alone.

    Raises:
        RunFolderError: the folder is used, is no run folder, or was started with other settings.
    """
    if resume and folder.is_ready:
        _check_same_settings(folder, config, manifest)
        return
    if folder.is_run:
        if not clean and folder.finished_keys():
            raise RunFolderError(_used(folder))
        _empty(folder)
    elif not _is_unused(folder.path):
        raise RunFolderError(_no_run(folder.path, clean))
    try:
        write_json(folder.manifest, {"schema": 1, "kind": KIND} | dict(manifest))
        write_json_lines(folder.tasks, map(task_line, tasks))
        write_json(folder.config, config)
    except OSError as error:
        raise unwritable(folder.path, error) from None


def _is_unused(path: Path) -> bool:
    """Empty but for what a start that was killed at once may have left."""
    return all(entry.name.endswith(".tmp") for entry in path.iterdir())


def _empty(folder: RunFolder) -> None:
    """Delete what a run wrote, but not the manifest: it marks the folder as a run until the next one replaces it."""
    for name in WRITTEN:
        (folder.path / name).unlink(missing_ok=True)


def _no_run(path: Path, clean: bool) -> str:
    if not clean:
        return f"{path} exists and is not a run folder. Choose another --out."
    return (
        f"--clean deletes runs only, and {path} has no manifest.json of an evaluation. "
        "Remove it yourself or choose another --out."
    )


def _used(folder: RunFolder) -> str:
    finished, planned = len(folder.finished_keys()), folder.read_manifest()["planned"]
    first = "Continue with --resume, start" if folder.is_ready else "Its config.json is gone: start"
    return (
        f"{folder.path} already holds {finished:,} of {planned:,} samples. "
        f"{first} over with --clean, or choose another --out."
    )


def _check_same_settings(folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    old, new = flatten(folder.read_config()), flatten(config)
    # Both sides pass through JSON's types: a tuple in memory is a list in the file.
    changed = [
        f"{path} {_shown(old.get(path))} -> {_shown(new.get(path))}"
        for path in sorted(old.keys() | new.keys())
        if path not in RESUMABLE and _shown(old.get(path)) != _shown(new.get(path))
    ]
    stored = folder.read_manifest()
    changed += [
        name.replace("_", ".")
        for name in sorted(manifest)
        if name.endswith(("_sha256", "_hash")) and manifest[name] != stored.get(name)
    ]
    if changed:
        raise RunFolderError(
            f"--resume needs the settings the run was started with; these differ: {', '.join(changed)}. "
            "Give the old settings, start over with --clean, or choose another --out."
        )


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
