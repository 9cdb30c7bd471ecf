"""Settings from YAML and overrides: one validation, and messages that name the place and the remedy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from reasoning.config import ConfigError, flag_of, nearest, setting_paths
from reasoning.engine.base import EngineSettings
from reasoning.eval_config import EngineSection, EvalConfig, load_config
from reasoning.types import NO_LIMIT


def load(text: str, tmp_path: Path, **overrides: str) -> EvalConfig:
    path = tmp_path / "eval.yaml"
    path.write_text(text)
    return load_config(path, overrides)


def message(text: str, tmp_path: Path, overrides: dict[str, str] | None = None) -> str:
    path = tmp_path / "eval.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides or {})
    return str(caught.value).replace(f"{tmp_path}/", "")


def flag_message(overrides: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(None, overrides)
    return str(caught.value)


def test_defaults_evaluate_the_bundled_model_on_countdown():
    config = load_config(None, {"budgets": "1k,10k,50k"})
    assert (config.model, config.tasks, config.samples, config.closing) == ("pocket", "countdown", 1, "bare")
    assert config.budgets == (1_000, 10_000, 50_000)
    assert config.baseline
    assert config.limit is None
    assert config.max_errors == 0.05


def test_budgets_are_sorted_and_single(tmp_path):
    assert load_config(None, {"budgets": "none,10k,1_000,1k"}).budgets == (1_000, 10_000, NO_LIMIT)
    assert load("budgets: [10k, 64, none]", tmp_path).budgets == (64, 10_000, NO_LIMIT)
    assert load("budgets: 4096", tmp_path).budgets == (4096,)


def test_stored_budgets_can_be_loaded_again():
    config = load_config(None, {"budgets": "1k,none"})
    stored = config.model_dump(mode="json")
    assert stored["budgets"] == [1000, "none"]
    assert EvalConfig.model_validate(stored) == config


def test_overrides_win_over_the_file_and_keep_its_other_settings(tmp_path):
    text = "budgets: 1k\nsampling:\n  temperature: 0.6\n  top_p: 0.95\nengine:\n  max_num_seqs: 8\n"
    config = load(text, tmp_path, **{"sampling.temperature": "1", "engine.max_num_seqs": "64"})
    assert (config.sampling.temperature, config.sampling.top_p, config.engine.max_num_seqs) == (1.0, 0.95, 64)


def test_lists_and_mappings_from_the_command_line():
    overrides = {"budgets": "1k", "countdown.levels": "5,4", "engine.extra": "{max_num_batched_tokens: 512}"}
    config = load_config(None, overrides)
    assert config.countdown.levels == (4, 5)
    assert config.engine.extra == {"max_num_batched_tokens": 512}
    assert load_config(None, {"budgets": "1k", "countdown.levels": "4"}).countdown.levels == (4,)


def test_scientific_notation_of_yaml_is_a_number(tmp_path):
    assert load("budgets: 1k\nmax_errors: 1e-2\n", tmp_path).max_errors == 0.01


def test_every_problem_of_a_file_is_listed_with_its_path(tmp_path):
    text = "budgets: [1k, 10kk]\nsampling:\n  temprature: 1\n"
    assert message(text, tmp_path) == (
        "eval.yaml has 2 problems\n"
        "  budgets[1]            '10kk' is not a token count; write 10k, 10_000 or none\n"
        "  sampling.temprature   unknown key; did you mean sampling.temperature?"
    )


def test_a_setting_in_the_wrong_section_is_found(tmp_path):
    assert "did you mean sampling.temperature?" in message("budgets: 1k\ntemperature: 1\n", tmp_path)
    assert "did you mean engine.max_num_seqs?" in message("budgets: 1k\nmax_num_seq: 1\n", tmp_path)


def test_a_key_that_resembles_nothing_gets_no_suggestion(tmp_path):
    assert message("budgets: 1k\nxyzzy: 1\n", tmp_path) == "eval.yaml has 1 problem\n  xyzzy   unknown key"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"budgets": "10kk"}, "--budgets: '10kk' is not a token count; write 10k, 10_000 or none"),
        ({}, "--budgets: missing; for example 1k,10k,50k"),
        ({"budgets": "1k", "samples": "many"}, "--samples: 'many' is not a whole number"),
        ({"budgets": "1k", "samples": "0"}, "--samples: 0 is too small; it has to be at least 1"),
        ({"budgets": "1k", "sampling.top_p": "1.5"}, "--top-p: 1.5 is too large; it has to be at most 1"),
        ({"budgets": "1k", "sampling.top_p": "0"}, "--top-p: 0 is too small; it has to be more than 0"),
        ({"budgets": "1k", "sampling.temperature": "hot"}, "--temperature: 'hot' is not a number"),
        ({"budgets": "1k", "baseline": "perhaps"}, "--baseline: 'perhaps' is neither true nor false"),
        (
            {"budgets": "1k", "countdown.prompt": "short"},
            "--countdown.prompt: 'short' is not 'auto', 'plain' or 'compact'",
        ),
        ({"budgets": "1k", "countdown.levels": "7"}, "--countdown.levels: 7 is too large; it has to be at most 6"),
        ({"budgets": "1k", "closing": ""}, "--closing: must not be empty"),
    ],
)
def test_problems_of_the_command_line_name_the_option(overrides, expected):
    assert flag_message(overrides) == expected


def test_problems_of_file_and_command_line_are_told_apart(tmp_path):
    text = message("budgets: 1k\nseed: x\n", tmp_path, {"samples": "0"})
    assert text.splitlines()[0] == "eval.yaml has 2 problems"
    assert "  seed        'x' is not a whole number" in text
    assert "  --samples   0 is too small" in text


def test_text_that_is_a_number_needs_quotes(tmp_path):
    assert "3 is not text; put it in quotes" in message("budgets: 1k\nmodel: 3\n", tmp_path)


def test_a_value_in_the_place_of_a_section(tmp_path):
    assert "'hot' is not a section" in message("budgets: 1k\nsampling: hot\n", tmp_path)


def test_broken_yaml_names_line_and_column(tmp_path):
    text = message("budgets: 1k\nsampling: {temperature: 1\n", tmp_path)
    assert text.startswith("eval.yaml is not valid YAML: line 3, column 1: ")


def test_a_file_without_settings(tmp_path):
    assert "has to hold settings" in message("- 1k\n- 2k\n", tmp_path)
    assert load("", tmp_path, budgets="1k").budgets == (1_000,)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.yaml: No such file"):
        load_config(tmp_path / "gone.yaml", {})


def test_nearest_knows_sections_and_spellings():
    paths = list(setting_paths(EvalConfig))
    assert nearest("budgest", iter(paths)) == "budgets"
    assert nearest("engine.kv_cache_gib", iter(paths)) == "engine.kv_cache_gb"
    assert nearest("qqq", iter(paths)) is None


def test_flags_of_settings():
    assert flag_of("max_answer_tokens") == "--max-answer-tokens"
    assert flag_of("sampling.top_p") == "--top-p"
    assert flag_of("engine.max_num_seqs") == "--engine.max_num_seqs"


def test_the_engine_section_has_the_engines_own_settings_and_defaults():
    assert EngineSection().model_dump() == asdict(EngineSettings())


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"engine.replicas": "2"}, "--engine: replicas is 2, and engines on one device need kv_cache_gb"),
        (
            {"engine.replicas": "2", "engine.kv_cache_gb": "1", "profile": "true"},
            "profile measures one engine, engine.replicas is 2; leave one out",
        ),
        ({"engine.replicas": "0"}, "--engine.replicas: 0 is too small; it has to be at least 1"),
    ],
)
def test_several_engines_need_a_cache_and_are_not_profiled(chosen, message):
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"budgets": "64", **chosen})
    assert str(caught.value).startswith(message)
