from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from reasoning.prompts import (
    CLOSINGS,
    PromptError,
    Rendered,
    ThinkMarkers,
    closing_from,
    find,
    find_markers,
    load_tokenizer,
    render,
    stop_ids,
)

WORDS = ["<unk>", "<s>", "</s>", "User", "Assistant", "\n", "\n\n", "<", "/", "think", ">", "what", "is", "it", "."]
R1 = (
    "{{ bos_token }}{% for m in messages %}User {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}Assistant<think>\n{% endif %}"
)
QWEN3 = (
    "{% for m in messages %}User {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}Assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
NO_THINK = QWEN3.replace("{% if enable_thinking is defined and not enable_thinking %}", "{% if true %}")
PLAIN = "{% for m in messages %}User {{ m['content'] }}\n{% endfor %}Assistant\n"
QUESTION = [{"role": "user", "content": "what is it"}]


def make_tokenizer(
    template: str | None, added: tuple[str, ...] = ("<think>", "</think>"), words=WORDS, split=r" |\n+|[<>/.]"
):
    """Words split at spaces, newlines and punctuation; text is encoded with <s> in front, as Llama's is."""
    model = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    isolated = pre_tokenizers.Split(Regex(split), "isolated")
    model.pre_tokenizer = pre_tokenizers.Sequence([isolated, pre_tokenizers.Split(" ", "removed")])
    model.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", words.index("<s>"))])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    tokenizer.add_tokens(list(added), special_tokens=True)
    tokenizer.chat_template = template
    return tokenizer


def ids_of(tokenizer, *words: str) -> tuple[int, ...]:
    return tuple(tokenizer.convert_tokens_to_ids(list(words)))


def test_a_template_that_opens_the_thinking():
    tokenizer = make_tokenizer(R1)
    markers = find_markers(tokenizer)
    assert markers == ThinkMarkers(ids_of(tokenizer, "<think>"), ids_of(tokenizer, "</think>"))
    expected = ids_of(tokenizer, "<s>", "User", "what", "is", "it", "Assistant", "<think>", "\n")
    assert render(tokenizer, QUESTION, markers) == Rendered(expected, starts_open=True)


def test_a_template_that_leaves_opening_to_the_model():
    tokenizer = make_tokenizer(QWEN3)
    rendered = render(tokenizer, QUESTION, find_markers(tokenizer))
    assert rendered == Rendered(
        ids_of(tokenizer, "User", "what", "is", "it", "\n", "Assistant", "\n"), starts_open=False
    )


def test_an_empty_think_section_in_the_prompt_is_closed():
    tokenizer = make_tokenizer(NO_THINK)
    rendered = render(tokenizer, QUESTION, find_markers(tokenizer))
    assert rendered.prompt_ids[-4:] == ids_of(tokenizer, "<think>", "\n\n", "</think>", "\n\n")
    assert not rendered.starts_open


@pytest.mark.parametrize(("template", "starts_open"), [(R1, True), (QWEN3, False), (NO_THINK, False)])
@pytest.mark.parametrize("content", ["what is <think>", "what is </think>", "<think> it </think>"])
def test_markers_that_the_user_writes_do_not_count(template: str, starts_open: bool, content: str):
    tokenizer = make_tokenizer(template)
    rendered = render(tokenizer, [{"role": "user", "content": content}], find_markers(tokenizer))
    assert rendered.starts_open is starts_open


def test_a_template_that_always_begins_the_assistants_turn():
    tokenizer = make_tokenizer(PLAIN.replace("Assistant\n", "Assistant<think>"))
    assert render(tokenizer, QUESTION, find_markers(tokenizer)).starts_open


def test_one_beginning_of_text_where_template_and_tokenizer_both_would_add_it():
    tokenizer = make_tokenizer(R1)
    (bos,) = ids_of(tokenizer, "<s>")
    assert tokenizer.encode("what")[0] == bos  # the tokenizer adds its own to text
    assert render(tokenizer, QUESTION, find_markers(tokenizer)).prompt_ids.count(bos) == 1


def test_a_model_without_markers_is_refused_with_what_was_looked_for():
    tokenizer = make_tokenizer(PLAIN, added=())
    with pytest.raises(PromptError) as error:
        find_markers(tokenizer)
    assert "<think></think>" in str(error.value)
    assert "choose a model that thinks between markers" in str(error.value)


def test_markers_of_several_tokens_that_the_template_uses():
    tokenizer = make_tokenizer(R1, added=())
    markers = find_markers(tokenizer)
    assert markers == ThinkMarkers(ids_of(tokenizer, "<", "think", ">"), ids_of(tokenizer, "<", "/", "think", ">"))
    assert render(tokenizer, QUESTION, markers).starts_open


def test_markers_that_split_differently_in_different_texts_are_refused():
    words = [*WORDS, "</think>", "<think>", "</think>\n", "</think>\n\n"]
    tokenizer = make_tokenizer(R1, added=(), words=words, split=r"</?think>\n*| |\n+")
    (close,) = ids_of(tokenizer, "</think>")
    assert find_markers(tokenizer).close_ids == (close,)  # a token: whatever else there is, the id is exact
    words = [*WORDS, ">\n", ">\n\n"]
    with pytest.raises(PromptError, match="always splits in the same way"):
        find_markers(make_tokenizer(R1, added=(), words=words, split=r">\n+| |\n+|[<>/.]"))


def test_markers_that_the_template_uses_come_before_others_in_the_vocabulary():
    added = ("<think>", "</think>", "[THINK]", "[/THINK]")
    tokenizer = make_tokenizer(R1.replace("<think>", "[THINK]"), added)
    assert find_markers(tokenizer) == ThinkMarkers(ids_of(tokenizer, "[THINK]"), ids_of(tokenizer, "[/THINK]"))
    tokenizer = make_tokenizer(PLAIN, added)
    assert find_markers(tokenizer) == ThinkMarkers(ids_of(tokenizer, "<think>"), ids_of(tokenizer, "</think>"))


def test_no_chat_template_and_refused_messages_are_prompt_errors():
    tokenizer = make_tokenizer(None)
    markers = find_markers(tokenizer)
    with pytest.raises(PromptError, match="chat template"):
        render(tokenizer, QUESTION, markers)
    tokenizer.chat_template = "{{ raise_exception('system messages are not supported') }}"
    with pytest.raises(PromptError, match="system messages are not supported"):
        render(tokenizer, QUESTION, markers)


def test_closings_hold_the_models_own_marker_exactly_once():
    said = " ".join(CLOSINGS.values()).replace("</think>", " ").replace(".", " ").split()
    words = list(dict.fromkeys([*WORDS, *said]))
    markers = ThinkMarkers((900,), (901, 902))
    tokenizer = make_tokenizer(R1, words=words)
    for name, text in CLOSINGS.items():
        ids = closing_from(name).ids(tokenizer, markers)
        assert (find(ids, markers.close_ids) >= 0) is (name != "none")
        before, _, after = text.partition("</think>")
        encode = lambda part: tuple(tokenizer.encode(part, add_special_tokens=False))  # noqa: E731
        assert ids == (() if name == "none" else encode(before) + markers.close_ids + encode(after))
    assert closing_from("bare").ids(tokenizer, markers) == markers.close_ids
    assert closing_from("none").ids(tokenizer, markers) == ()


def test_own_closings():
    tokenizer = make_tokenizer(R1)
    markers = find_markers(tokenizer)
    close = markers.close_ids
    it = ids_of(tokenizer, "it", "is")
    assert closing_from("it is").ids(tokenizer, markers) == close + it
    assert closing_from("it is</think>\n").ids(tokenizer, markers) == it + close + ids_of(tokenizer, "\n")
    magistral = ThinkMarkers((77,), (78,))
    assert closing_from("it is[/THINK]").ids(tokenizer, magistral) == (*it, 78)
    with pytest.raises(PromptError, match="bare, qwen, s1, boxed, code, none"):
        closing_from("boxd")
    with pytest.raises(PromptError, match="use --closing bare"):
        closing_from("qwen").ids(tokenizer, markers)  # words that are not in this vocabulary


@pytest.mark.parametrize(
    ("ids", "marker", "start", "at"),
    [
        ((1, 2, 3), (2,), 0, 1),
        ((1, 1, 2), (1, 2), 0, 1),
        ((1, 2, 1, 2), (1, 2), 1, 2),
        ((1, 2, 1), (1, 2), 1, -1),
        ((), (1,), 0, -1),
    ],
)
def test_find(ids, marker, start, at):
    assert find(ids, marker, start) == at
    assert find(list(ids), marker, start) == at


def test_loading_and_stop_ids(tmp_path: Path):
    with pytest.raises(PromptError, match=r"has no config\.json"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(PromptError, match=r"has no tokenizer\.json"):
        load_tokenizer(str(tmp_path))
    make_tokenizer(R1).save_pretrained(tmp_path)
    tokenizer = load_tokenizer(str(tmp_path))
    assert render(tokenizer, QUESTION, find_markers(tokenizer)).starts_open
    (eos,) = ids_of(tokenizer, "</s>")
    assert stop_ids(tokenizer, str(tmp_path)) == (eos,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 7]}')
    assert stop_ids(tokenizer, str(tmp_path)) == tuple(sorted({eos, 7, 9}))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 9}')
    tokenizer.eos_token = None
    assert stop_ids(tokenizer, str(tmp_path)) == (9,)


def test_a_model_that_never_ends_its_text_is_refused(tmp_path: Path):
    tokenizer = make_tokenizer(R1)
    tokenizer.eos_token = None
    with pytest.raises(PromptError, match="eos_token_id"):
        stop_ids(tokenizer, str(tmp_path))


def test_a_damaged_tokenizer_is_a_prompt_error(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(PromptError, match="cannot be loaded"):
        load_tokenizer(str(tmp_path))
