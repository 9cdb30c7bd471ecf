"""The folder of a training run: created, refused when used, resumed or cleaned.

It has the manifest, config.json, run.log and plots/ of every run, and beside them metrics.jsonl, rollouts/,
checkpoints/, eval/ (an evaluation's run folder each time the model was measured) and model/, the trained model.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from reasoning.config import flatten
from reasoning.files import read_json, write_json
from reasoning.run_folder import RunFolder, RunFolderError

KIND = "reasoning-harness training"

RESUMABLE = (
    *("out", "checks.", "update.", "grpo.gradient_checkpointing"),
    *("grpo.logging_steps", "grpo.report_to", "grpo.run_name", "grpo.save_steps"),
    *("grpo.vllm_server_base_url", "grpo.vllm_server_host", "grpo.vllm_server_port", "grpo.vllm_server_timeout"),
    *("grpo.vllm_group_port", "grpo.save_total_limit"),
    *("engine.max_num_seqs", "engine.kv_cache_gb", "engine.gpu_memory_utilization", "engine.replicas"),
)
"""Settings, or sections ending in a dot, that move the weights by rounding at most: a resumed run may change them."""

WRITTEN = (
    "config.json",
    "metrics.jsonl",
    "run.log",
    "rollouts",
    "checkpoints",
    "eval",
    "model",
    "adapter",
    "plots",
    "runs",
)
"""What a run leaves beside its manifest, in the order in which it is deleted. runs/ is tensorboard's."""


def is_training_run(folder: RunFolder) -> bool:
    """Whether the folder was made by a training run."""
    return folder.manifest.exists() and read_json(folder.manifest).get("kind") == KIND


def prepare_training(
    folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any], *, resume: bool, clean: bool
) -> None:
    """Make a locked folder ready. With `resume`, one of the same settings is continued and an unused one started.

    With `clean`, or where nothing was measured or trained yet, what a run left is deleted first.

    Raises:
        RunFolderError: the folder is used, is no training run, or was started with other settings.
    """
    if resume and is_training_run(folder) and folder.config.exists():
        _check_same_settings(folder, config, manifest)
        return
    if is_training_run(folder):
        if not clean and _holds_work(folder):
            raise RunFolderError(
                f"{folder.path} already holds a training run. "
                "Continue with --resume, start over with --clean, or choose another --out."
            )
        _empty(folder)
    elif any(not entry.name.endswith(".tmp") for entry in folder.path.iterdir()):
        raise RunFolderError(f"{folder.path} exists and is not the folder of a training run. Choose another --out.")
    write_json(folder.manifest, {"schema": 1, "kind": KIND} | dict(manifest))
    write_json(folder.config, config)


def _holds_work(folder: RunFolder) -> bool:
    """Whether anything was measured or trained: a run that failed before that may be started over."""
    metrics = folder.path / "metrics.jsonl"
    return (metrics.exists() and metrics.stat().st_size > 0) or any((folder.path / "checkpoints").glob("step-*"))


def _empty(folder: RunFolder) -> None:
    more = [path for pattern in ("bad-batch-step-*.json", "run-*.log") for path in folder.path.glob(pattern)]
    for path in [*(folder.path / name for name in WRITTEN), *more]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _check_same_settings(folder: RunFolder, config: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    old, new = flatten(folder.read_config()), flatten(config)
    changed = [
        f"{path} {_shown(old.get(path))} -> {_shown(new.get(path))}"
        for path in sorted(old.keys() | new.keys())
        if not _may_change(path) and _shown(old.get(path)) != _shown(new.get(path))
    ]
    stored = folder.read_manifest()
    for name, alone in (("processes", 1), ("sharded", False)):
        old_value, new_value = stored.get(name, alone), manifest.get(name, alone)
        if old_value != new_value:
            changed.append(f"{name} {old_value} -> {new_value}")
    changed += [
        name.replace("_sha256", ".sha256")
        for name in sorted(manifest)
        if name.endswith("_sha256") and manifest[name] != stored.get(name)
    ]
    if changed:
        raise RunFolderError(
            f"--resume needs the settings the run was started with; these differ: {', '.join(changed)}. "
            "Give the old settings, start over with --clean, or choose another --out."
        )


def _may_change(path: str) -> bool:
    return any(path == known or (known.endswith(".") and path.startswith(known)) for known in RESUMABLE)


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
