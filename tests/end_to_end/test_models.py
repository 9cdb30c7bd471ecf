"""What a model's own files decide: how it is sampled, what it is called, and whether it is still the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning import model_files
from reasoning.files import read_json
from reasoning.model_files import read_model
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Outcome, arguments, results

Run = Callable[..., Outcome]


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    """A copy of the model to change."""
    return Path(shutil.copytree(model, tmp_path / "own"))


def suggest(folder: Path, **suggestions: object) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": scripted.END} | suggestions))


def stored(run: Run, model: Path, out: Path, *more: str) -> dict[str, float]:
    assert run(arguments(model, out, *more)).code == 0
    return read_json(out / "config.json")["sampling"]


def test_the_models_top_k_and_min_p_are_followed_and_shown(own, tmp_path, run: Run):
    suggest(own, temperature=0.6, top_p=0.95, top_k=20, min_p=0.05)
    outcome = run(arguments(own, tmp_path / "run"))
    words = "temperature 0.6, top-p 0.95, top-k 20, min-p 0.05"
    assert (outcome.code, f"; {words}, closing bare" in outcome.err) == (0, True)
    assert read_json(tmp_path / "run" / "config.json")["sampling"] == {
        "temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.05,
    }  # fmt: skip
    caption = read_json(tmp_path / "run" / "plots" / "accuracy.json")["caption"]
    assert caption.endswith("Temperature 0.6, top-p 0.95, top-k 20, min-p 0.05, closing bare.")
    assert results(tmp_path / "run")["run"]["top_k"] == 20


def test_settings_win_over_the_models_top_k_and_min_p(own, tmp_path, run: Run):
    suggest(own, top_k=20, min_p=0.05)
    sampling = stored(run, own, tmp_path / "run", "--top-k", "0", "--min-p", "0.1")
    assert (sampling["top_k"], sampling["min_p"]) == (0, 0.1)


def test_what_is_off_is_not_shown(own, tmp_path, run: Run):
    suggest(own, top_k=-1)
    outcome = run(arguments(own, tmp_path / "run"))
    assert "temperature 1, top-p 1, closing bare" in outcome.err
    assert read_json(tmp_path / "run" / "config.json")["sampling"]["top_k"] == 0


def test_a_model_that_does_not_sample_is_not_sampled_unless_asked(own, tmp_path, run: Run):
    suggest(own, do_sample=False, temperature=0.7)
    assert stored(run, own, tmp_path / "greedy")["temperature"] == 0.0
    assert stored(run, own, tmp_path / "warm", "--temperature", "0.5")["temperature"] == 0.5


def test_suggestions_that_nothing_applies_are_named_once(own, tmp_path, run: Run):
    suggest(own, repetition_penalty=1.1, no_repeat_ngram_size=0, min_new_tokens=None, max_new_tokens=64)
    note = "note: generation_config.json also asks for repetition_penalty 1.1, which is not applied\n"
    assert run(arguments(own, tmp_path / "run")).err.count(note) == 1
    suggest(own, repetition_penalty=1.1, no_repeat_ngram_size=3)
    outcome = run(arguments(own, tmp_path / "dry", "--dry-run"))
    assert "repetition_penalty 1.1, no_repeat_ngram_size 3, which are not applied" in outcome.out
    suggest(own, repetition_penalty=1.0)
    assert "note:" not in run(arguments(own, tmp_path / "other")).err


def test_samples_at_temperature_0_hardly_differ(model, tmp_path, run: Run):
    note = "note: at temperature 0 the 2 samples of a task will hardly differ"
    assert note in run(arguments(model, tmp_path / "two", "--temperature", "0", "--dry-run")).out
    assert "hardly" not in run(arguments(model, tmp_path / "one", "--temperature", "0", "--samples", "1")).err


def test_another_model_under_the_same_name_is_noticed(own, tmp_path, run: Run):
    (own / "model.safetensors").write_bytes(b"weights")
    assert run(arguments(own, tmp_path / "run")).code == 0
    (own / "README.md").write_text("says nothing of the numbers")
    assert run(arguments(own, tmp_path / "run", "--resume")).code == 0
    (own / "model.safetensors").write_bytes(b"WEIGHTS")
    outcome = run(arguments(own, tmp_path / "run", "--resume"))
    assert (outcome.code, "these differ: model.sha256." in outcome.err) == (2, True)


def test_large_files_are_told_apart_by_size_and_ends(own, monkeypatch):
    monkeypatch.setattr(model_files, "MEBIBYTE", 4)
    contents = [b"head.middle.tail", b"HEAD.middle.tail", b"head.middle.TAIL", b"head.middle..tail", b"head"]
    seen = set()
    for content in contents:
        (own / "model.safetensors").write_bytes(content)
        seen.add(read_model(str(own)).sha256)
    assert len(seen) == len(contents)


def test_a_model_on_the_hub_is_told_by_its_commit(model, tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots" / ("c0ffee" + 34 * "0")
    shutil.copytree(model, snapshot)
    monkeypatch.setattr(model_files, "_from_hub", lambda _name, filename: snapshot / filename)
    assert read_model("a/b").sha256 == snapshot.name


def test_the_folder_one_is_in_has_a_name(own, tmp_path, run: Run, monkeypatch):
    monkeypatch.chdir(own)
    words = ["--model", ".", "--budgets", "8", "--limit", "4", "--quiet"]
    assert run(words).code == 0
    (folder,) = (own / "runs").iterdir()
    assert folder.name.startswith("countdown--own--")
    assert results(folder)["run"]["model"] == "own"
    (own / "inner").mkdir()
    monkeypatch.chdir(own / "inner")
    assert run(["--model", "..", *words[2:], "--out", str(tmp_path / "up")]).code == 0
    assert results(tmp_path / "up")["run"]["model"] == "own"


def test_prompts_that_begin_their_thinking_differently_are_refused(tmp_path, run: Run):
    template = scripted.build_tokenizer(16).chat_template.replace("<think>", "{{ opening }}")
    opening = "{% set opening = '<think>' if messages[0]['content'] | length > 11 else '' %}"
    model = scripted.save_model(tmp_path / "model", template=opening + template)
    words = ["--model", str(model), "--budgets", "8", "--limit", "8", "--out", str(tmp_path / "run")]
    outcome = run(words)
    assert outcome.code == 2
    assert "opens the thinking for task countdown-" in outcome.err
    assert "but not for task countdown-" in outcome.err
    assert not (tmp_path / "run").exists()
