"""What a model says about itself in its JSON files, read before anything heavy is loaded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning.config import ConfigError

POCKET = Path(__file__).parent / "pocket"
"""The bundled model."""

MEBIBYTE = 1 << 20
DECISIVE_FILES = (
    *("config.json", "generation_config.json", "*.safetensors", "*.bin"),
    *("tokenizer*", "chat_template*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
)
"""The files of a model folder that can move a number."""

NEUTRAL: Mapping[str, Any] = {
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "no_repeat_ngram_size": 0,
    "min_new_tokens": 0,
    "min_length": 0,
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "num_beams": 1,
    "guidance_scale": 1,
    "bad_words_ids": [],
    "sequence_bias": [],
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
}
"""Keys of generation_config.json that change what is sampled and that nothing here applies, at values of no effect."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model by the name that the user gave, and where the tokenizer and the engine find it.

    A folder that was given as `.` or `..` goes by its path. `sha256` tells versions apart: over the files of a local
    folder; of a model on the hub it is the commit.
    """

    name: str
    source: str  # a local folder, or the name of a model on the hub
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    sha256: str

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

    @property
    def unapplied(self) -> dict[str, Any]:
        """What generation_config.json asks for beyond the settings of `reasoning.eval_config.Sampling`."""
        asked = ((name, self.generation_config.get(name)) for name in NEUTRAL)
        return {name: value for name, value in asked if value is not None and value != NEUTRAL[name]}


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
    path = _locate(source, "config.json")
    if path is None:
        raise ConfigError(f"{source} has no config.json: not a model folder")
    suggestions = _locate(source, "generation_config.json")
    return Model(
        name=name if Path(name).name not in ("", "..") else str(Path(name).resolve()),
        source=source,
        config=_read_json(path),
        generation_config=_read_json(suggestions) if suggestions else {},
        sha256=_folder_sha256(Path(source)) if is_local(source) else path.parent.name,  # snapshots/<commit>/config.json
    )


def _folder_sha256(folder: Path) -> str:
    """Over names, sizes, and the first and the last MiB of each file that can move a number."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in DECISIVE_FILES for path in folder.glob(pattern) if path.is_file()}):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(MEBIBYTE))
            file.seek(max(0, size - MEBIBYTE))
            digest.update(file.read())
    return digest.hexdigest()


def _locate(source: str, filename: str) -> Path | None:
    path = Path(source, filename) if is_local(source) else _from_hub(source, filename)
    return path if path is not None and path.exists() else None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold a JSON object")
    return found


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
