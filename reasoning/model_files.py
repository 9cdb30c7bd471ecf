"""What a model says about itself in its JSON files, read before anything heavy is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning.config import ConfigError

POCKET = Path(__file__).parent / "pocket"
"""The bundled model."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model by the name that the user gave, and where the tokenizer and the engine find it."""

    name: str
    source: str  # a local folder, or the name of a model on the hub
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]

    @property
    def context_tokens(self) -> int:
        """Longest sequence that the model was made for: prompt, thinking and answer together."""
        text_config = self.config.get("text_config", {})
        context = self.config.get("max_position_embeddings", text_config.get("max_position_embeddings"))
        if not isinstance(context, int):
            raise ConfigError(f"config.json of {self.name} has no max_position_embeddings: budgets cannot be checked")
        return context

    @property
    def harness(self) -> Mapping[str, Any]:
        """Hints for this harness: `prompt` (which countdown prompt) and `max_answer_tokens`."""
        return self.config.get("reasoning_harness", {})


def model_source(name: str) -> str:
    """The folder of a local model, or the hub name as it is.

    Raises:
        ConfigError: there is no such folder and it cannot be a hub name.
    """
    if name == "pocket":
        return str(POCKET)
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser())
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise ConfigError(
            f"no model folder at '{name}'; give a folder, a hub name like Qwen/Qwen3-0.6B, or pocket (the bundled one)"
        )
    return name


def is_local(source: str) -> bool:
    return Path(source).is_dir()


def read_model(name: str) -> Model:
    """Read the model's JSON files, from its folder or from the hub.

    Raises:
        ConfigError: the model has no readable config.json.
    """
    source = model_source(name)
    config = _read_json(source, "config.json")
    if config is None:
        raise ConfigError(f"{source} has no config.json: not a model folder")
    return Model(name, source, config, _read_json(source, "generation_config.json") or {})


def _read_json(source: str, filename: str) -> dict[str, Any] | None:
    path = Path(source, filename) if is_local(source) else _from_hub(source, filename)
    if path is None or not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None


def _from_hub(name: str, filename: str) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, filename))
    except LocalEntryNotFoundError:
        raise ConfigError(f"no model folder at '{name}', and the hub cannot be reached to look for it there") from None
    except EntryNotFoundError:
        return None
    except HfHubHTTPError as error:
        raise ConfigError(f"no model folder at '{name}', and the hub says: {error}") from None
