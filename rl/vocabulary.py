"""The bundled model's vocabulary: one token a whole number, one a result, one an operator or marker.

Text is words separated by blanks, so every trace reads as it was sampled: `12 + 7 =19 5 * 3 =15 19 - 15 =4 =24 no`.
Results and targets are words of their own (`=19`): the check that ends an attempt compares two equal tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reasoning.tasks.countdown import MAX_VALUE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<think>", "</think>", "<unk>")
OPERATORS = ("+", "-", "*", "/")  # in the order of the operator codes of `reasoning.tasks.countdown`
VERDICTS = ("no", "yes", "check", "ok", "bad")
NUMBERS = tuple(str(value) for value in range(MAX_VALUE + 1))
RESULTS = tuple(f"={value}" for value in range(MAX_VALUE + 1))

WORDS = SPECIAL + OPERATORS + VERDICTS + NUMBERS + RESULTS
ID = {word: index for index, word in enumerate(WORDS)}
OPERATOR_0, NUMBER_0, RESULT_0 = ID["+"], ID["0"], ID["=0"]
VOCABULARY_SIZE = -(-len(WORDS) // 64) * 64  # rounded up: matrix units like multiples of 64

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
)


def build_tokenizer(context: int) -> PreTrainedTokenizerFast:
    """A fast tokenizer over `WORDS` whose chat template opens the thinking."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(WordLevel(vocab=dict(ID), unk_token="<unk>"))
    core.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        unk_token="<unk>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>", "<think>", "</think>"],
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
