"""Text into token ids: chat templates, the markers around the thinking, and the closings that end it early.

After this module everything is ids: a budget is counted on ids, never on text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

MARKERS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),  # DeepSeek-R1, Qwen3, GLM-4.5 and most others
    ("<thinking>", "</thinking>"),
    ("<|thinking|>", "<|/thinking|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
)
"""Opening and closing think markers that are looked for."""

CLOSINGS: dict[str, str] = {
    "bare": "</think>",
    "qwen": (
        "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking directly now."
        "\n</think>\n\n"
    ),
    "s1": "\n</think>\n\nFinal Answer:",
    "boxed": "\n</think>\n\nThe final answer is \\boxed{",
    "code": "\n</think>\n\n```python\n",
    "none": "",
}
"""What is put behind thinking that a budget cuts; `</think>` stands for the model's own closing marker.

`bare`: the marker alone, nothing that could steer the answer. `qwen`: the sentence of Qwen3's own thinking budget
(Qwen3 Technical Report, arXiv 2505.09388). `s1`: the end-of-thinking delimiter and `Final Answer:`, as budget forcing
does it (arXiv 2501.19393). `boxed`: an opened box, as probes of unfinished reasoning put it (Dynasor, arXiv
2412.20993); only for tasks whose answer is read from `\\boxed{}`. `code`: an opened block of Python, for tasks whose
answer is a program. `none`: no answer is asked for, thinking that is cut has none.
"""


class PromptError(ValueError):
    """A model whose prompts, markers or closings cannot be made; the message is ready to show."""


@dataclass(frozen=True, slots=True)
class ThinkMarkers:
    """The ids around a think section; a marker may be several ids."""

    open_ids: Ids
    close_ids: Ids


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as ids. `starts_open`: the template itself opened the thinking, what follows is thinking."""

    prompt_ids: Ids
    starts_open: bool


@dataclass(frozen=True, slots=True)
class Closing:
    """The text that ends thinking early; empty: no answer is asked for."""

    name: str
    text: str

    def ids(self, tokenizer: PreTrainedTokenizerBase, markers: ThinkMarkers) -> Ids:
        """The ids of the text, the model's closing marker among them; in front where the text has no marker.

        Raises:
            PromptError: the tokenizer has no tokens for the text.
        """
        if not self.text:
            return ()
        marker = next((close for _, close in MARKERS if close in self.text), "")
        before, _, after = self.text.partition(marker) if marker else ("", "", self.text)
        written = tokenizer.encode(before, add_special_tokens=False), tokenizer.encode(after, add_special_tokens=False)
        if tokenizer.unk_token_id is not None and any(tokenizer.unk_token_id in ids for ids in written):
            raise PromptError(
                f"the closing '{self.name}' has words that the tokenizer of {tokenizer.name_or_path} does not know; "
                "use --closing bare"
            )
        return (*written[0], *markers.close_ids, *written[1])


def closing_from(name_or_text: str) -> Closing:
    """A preset by its name, or the user's own text. A single unknown word is taken for a misspelt name.

    Raises:
        PromptError: no preset has that name.
    """
    if name_or_text in CLOSINGS:
        return Closing(name_or_text, CLOSINGS[name_or_text])
    if name_or_text.isidentifier():
        presets = ", ".join(CLOSINGS)
        raise PromptError(f"no closing is called '{name_or_text}'; use {presets}, or a text of several words")
    return Closing(name_or_text, name_or_text)


def find(ids: Sequence[int], marker: Ids, start: int = 0) -> int:
    """Index of the first occurrence of `marker` in `ids` at or after `start`, or -1."""
    length = len(marker)
    try:
        while True:
            start = ids.index(marker[0], start)
            if tuple(ids[start : start + length]) == marker:
                return start
            start += 1
    except ValueError:
        return -1


def load_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a local model folder or of a model on the hub.

    Raises:
        PromptError: a folder without config.json or tokenizer, or a name that the hub does not serve.
    """
    from transformers import AutoTokenizer

    folder = Path(source)
    if folder.is_dir():
        for files in (("config.json",), ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")):
            if not any((folder / file).is_file() for file in files):
                raise PromptError(f"{source} has no {files[0]}; give the folder of a complete model")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise PromptError(f"the tokenizer of {source} cannot be loaded: {error}") from error
    return tokenizer


def stop_ids(tokenizer: PreTrainedTokenizerBase, source: str) -> Ids:
    """Ids that end a text: the tokenizer's end-of-text id, and those of the model's generation_config.json.

    Raises:
        PromptError: neither names one.
    """
    from transformers import GenerationConfig

    try:
        configured = GenerationConfig.from_pretrained(source).eos_token_id
    except OSError:  # an optional file
        configured = None
    listed = configured if isinstance(configured, list) else [configured]
    found = tuple(sorted({int(token) for token in (tokenizer.eos_token_id, *listed) if token is not None}))
    if not found:
        raise PromptError(f"{source} names no end-of-text token; set eos_token_id in its generation_config.json")
    return found


def find_markers(tokenizer: PreTrainedTokenizerBase) -> ThinkMarkers:
    """The markers that this model puts around its thinking.

    Pairs of `MARKERS` that the chat template mentions come first. A marker that is no token of its own counts only if
    the template uses it and it splits into the same ids in any text: otherwise it could not be recognised on ids.

    Raises:
        PromptError: no pair is like that.
    """
    template = str(tokenizer.chat_template or "")
    used = [pair for pair in MARKERS if pair[0] in template or pair[1] in template]
    for pair in (*used, *(pair for pair in MARKERS if pair not in used)):
        opening, closing = (
            _token(tokenizer, marker) or (_sequence(tokenizer, marker) if pair in used else ()) for marker in pair
        )
        if opening and closing:
            return ThinkMarkers(opening, closing)
    looked_for = " ".join("".join(pair) for pair in MARKERS)
    raise PromptError(
        f"{tokenizer.name_or_path} marks no thinking, so no budget can be counted: its vocabulary has none of "
        f"{looked_for}, and its chat template uses none that its tokenizer always splits in the same way; "
        "choose a model that thinks between markers (Qwen/Qwen3-0.6B, or pocket, the bundled one)"
    )


def _token(tokenizer: PreTrainedTokenizerBase, marker: str) -> Ids:
    """The single id of `marker`, or nothing."""
    token: Any = tokenizer.convert_tokens_to_ids(marker)
    return () if token is None or token == tokenizer.unk_token_id else (token,)


def _sequence(tokenizer: PreTrainedTokenizerBase, marker: str) -> Ids:
    """The ids that `marker` splits into wherever it stands, or nothing."""
    ids = tuple(tokenizer.encode(marker, add_special_tokens=False))
    texts = (f"{left}{marker}{right}" for left, right in (("\n", "\n"), (".\n", "\n\n"), (" ", " "), ("x", "x")))
    known = bool(ids) and tokenizer.unk_token_id not in ids
    return ids if known and all(find(tokenizer.encode(text), ids) >= 0 for text in texts) else ()


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], markers: ThinkMarkers
) -> Rendered:
    """The chat as prompt ids, up to where the assistant's turn begins.

    Special tokens come from the template alone, so there is one beginning-of-text token at most. Whether the thinking
    is open is read from the ids that begin the assistant's turn, so that a user may write about think markers.

    Raises:
        PromptError: the tokenizer has no chat template, or the template refuses the messages.
    """
    ids = _apply(tokenizer, messages, add_generation_prompt=True)
    context = _apply(tokenizer, messages, add_generation_prompt=False)
    turn = (ids[len(context) :] if ids[: len(context)] == context else ()) or ids
    return Rendered(ids, starts_open=_last(turn, markers.open_ids) > _last(turn, markers.close_ids))


def _apply(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool
) -> Ids:
    from jinja2 import TemplateError

    conversation: list[dict[str, Any]] = [dict(message) for message in messages]
    try:
        ids: Any = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=add_generation_prompt, tokenize=True, return_dict=False
        )
    except (ValueError, TemplateError) as error:
        raise PromptError(f"the chat template of {tokenizer.name_or_path} cannot be used: {error}") from error
    return tuple(ids)


def _last(ids: Ids, marker: Ids) -> int:
    """Index of the last occurrence of `marker` in `ids`, or -1."""
    last = at = find(ids, marker)
    while at >= 0:
        last, at = at, find(ids, marker, at + 1)
    return last
