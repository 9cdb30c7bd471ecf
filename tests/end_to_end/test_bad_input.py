"""Input that cannot be used is refused before anything starts, with the value and what to type instead."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end import scripted
from tests.end_to_end.conftest import Outcome

Run = Callable[..., Outcome]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=scripted.ROOT, capture_output=True, text=True, check=False)


def test_unknown_option_as_a_user_sees_it():
    done = python("-m", "reasoning.eval", "-m", "x", "--budgest", "1k,10k")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown option -m. See --help.\n"
    done = python("-m", "reasoning.eval", "--budgest", "1k,10k")
    assert (done.returncode, done.stderr) == (2, "error: unknown option --budgest. Did you mean --budgets?\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budgets", "10kk"], "error: --budgets: '10kk' is not a token count; write 10k, 10_000 or none\n"),
        (["--budgets"], "error: --budgets: expected one argument\n"),
        ([], "error: --budgets: missing; for example 1k,10k,50k\n"),
        (
            ["--budgets=1k", "--engine.max_num_seq=8"],
            "error: unknown option --engine.max_num_seq. Did you mean --engine.max_num_seqs?\n",
        ),
        (["--budgets", "1k", "--temprature", "1"], "error: unknown option --temprature. Did you mean --temperature?\n"),
        (["--budgets", "1k", "a.yaml", "b.yaml"], "error: unexpected argument 'b.yaml'. See --help.\n"),
        (
            ["--budgets", "1k", "--resume", "--clean"],
            "error: --resume continues a run and --clean deletes it; give one of them\n",
        ),
        (
            ["--budgets", "1k", "--resume"],
            "error: --resume and --clean need --out, the folder of the run\n",
        ),
        (["gone.yaml"], "error: cannot read gone.yaml: No such file or directory\n"),
    ],
)
def test_the_command_line(run: Run, arguments, message):
    outcome = run(arguments)
    assert (outcome.code, outcome.err) == (2, message)


def test_unknown_key_of_a_file(run: Run, tmp_path):
    settings = tmp_path / "eval.yaml"
    settings.write_text("budgets: [1k, 10kk]\nsampling:\n  temprature: 1\n")
    outcome = run([str(settings)])
    assert outcome.code == 2
    assert "sampling.temprature   unknown key; did you mean sampling.temperature?" in outcome.err
    assert "budgets[1]            '10kk' is not a token count; write 10k, 10_000 or none" in outcome.err


def refused(run: Run, tmp_path: Path, *arguments: str) -> str:
    """The message of an evaluation that must not leave anything behind."""
    outcome = run([*arguments, "--out", str(tmp_path / "run")])
    assert outcome.code == 2
    assert not (tmp_path / "run").exists()
    assert outcome.err.startswith("error: ")
    return outcome.err


def test_budgets_beyond_the_context_name_the_largest_possible(run: Run, model, tmp_path):
    message = refused(run, tmp_path, "--model", str(model), "--budgets", "16,1k")
    assert "a budget of 1k does not fit" in message
    assert "the context of 512 tokens" in message
    largest = message.partition("write at most ")[2].partition(",")[0]
    assert 400 < int(largest) < 512
    common = ["--model", str(model), "--limit", "4", "--quiet"]
    assert run([*common, "--budgets", largest, "--out", str(tmp_path / "fits")]).code == 0
    assert "does not fit" in refused(run, tmp_path, *common, "--budgets", str(int(largest) + 1))


def test_a_run_folder_that_cannot_be_made(run: Run, model, tmp_path):
    (tmp_path / "file").touch()
    out = str(tmp_path / "file" / "run")
    outcome = run(["--model", str(model), "--budgets", "8", "--out", out])
    assert (outcome.code, outcome.err) == (2, f"error: cannot write to {out}: Not a directory. Choose another --out.\n")


def test_an_answer_without_room(run: Run, model, tmp_path):
    message = refused(run, tmp_path, "--model", str(model), "--budgets", "8", "--max-answer-tokens", "600")
    assert "lower --max-answer-tokens" in message


def data_message(run: Run, tmp_path: Path, model: Path, text: str, name: str = "data.jsonl") -> str:
    data = tmp_path / name
    data.write_text(text)
    return refused(run, tmp_path, "--model", str(model), "--tasks", str(data), "--budgets", "8")


GOOD = {"id": "a", "problem": "1 2 =3", "answer": "3"}


def test_an_empty_data_file(run: Run, model, tmp_path):
    assert "data.jsonl" in data_message(run, tmp_path, model, "")


def test_a_malformed_line_is_numbered(run: Run, model, tmp_path):
    message = data_message(run, tmp_path, model, json.dumps(GOOD) + "\n{oops\n")
    assert "data.jsonl" in message
    assert "line 2" in message


def test_duplicate_ids(run: Run, model, tmp_path):
    message = data_message(run, tmp_path, model, f"{json.dumps(GOOD)}\n" * 2)
    assert "'a'" in message


def test_a_data_file_that_is_not_there(run: Run, model, tmp_path):
    message = refused(run, tmp_path, "--model", str(model), "--tasks", str(tmp_path / "gone.jsonl"), "--budgets", "8")
    assert "gone.jsonl" in message


def test_an_unknown_task_set(run: Run, model, tmp_path):
    assert "countdown" in refused(run, tmp_path, "--model", str(model), "--tasks", "countdwn", "--budgets", "8")


def test_a_model_that_is_not_there(run: Run, tmp_path):
    assert "no model folder at './gone'" in refused(run, tmp_path, "--model", "./gone", "--budgets", "8")


def test_a_model_without_config(run: Run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "config.json").unlink()
    assert "has no config.json" in refused(run, tmp_path, "--model", str(tmp_path / "model"), "--budgets", "8")


def test_a_model_with_a_broken_config(run: Run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{")
    assert "config.json is not valid JSON" in refused(
        run, tmp_path, "--model", str(tmp_path / "model"), "--budgets", "8"
    )


def test_a_model_without_tokenizer(run: Run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    for file in (tmp_path / "model").glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in refused(run, tmp_path, "--model", str(tmp_path / "model"), "--budgets", "8")


def test_a_model_that_marks_no_thinking(run: Run, tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path / "model"
    words = Tokenizer(WordLevel({"<unk>": 0, "<eos>": 1, "1": 2}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", unk_token="<unk>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "qwen3", "max_position_embeddings": 512}')
    assert "marks no thinking" in refused(run, tmp_path, "--model", str(folder), "--budgets", "8")


def test_a_closing_that_nobody_knows(run: Run, model, tmp_path):
    message = refused(run, tmp_path, "--model", str(model), "--budgets", "8", "--closing", "bear")
    assert "no closing is called 'bear'" in message
