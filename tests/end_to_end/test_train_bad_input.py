"""What cannot be trained is said clearly, and what goes wrong on the way leaves the last good state behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import reasoning.summary
import rl.checkpoints
import rl.start
import verifiers
from reasoning.cli import USAGE_ERRORS
from reasoning.config import ConfigError, load_settings
from reasoning.engine.base import Engine, Output
from reasoning.files import read_json, read_json_lines
from reasoning.train import parse
from reasoning.train_config import TrainConfig
from reasoning.train_plan import TrainPlan, plan_training
from reasoning.training import TrainCommand, train
from tests.end_to_end import training
from verifiers.base import Status, Verdict
from verifiers.pool import JobFailed, JobTimeout, WorkerPool

HERE = "tests.end_to_end.own_rewards"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of each held-out evaluation take longer than all the rest of a run, and have their own tests."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training.save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budgt": 3}, ["budgt", "unknown key", "did you mean budget"]),
        ({"grpo": {"learning_rat": 1e-4}}, ["grpo.learning_rat", "unknown key", "grpo.learning_rate"]),
        ({"grpo": {"use_vllm": False}}, ["grpo.use_vllm: false is not built", "leave it out"]),
        ({"grpo": {"max_completion_length": 9}}, ["grpo.max_completion_length", "budget", "max_answer_tokens"]),
        ({"grpo": {"push_to_hub": True}}, ["grpo.push_to_hub", "no effect"]),
        ({"grpo": {"learning_rate": "fast"}}, ["grpo.learning_rate", "'fast' is not a number"]),
        ({"grpo": {"per_device_train_batch_size": 10}}, ["is 10", "num_generations (4)", "write 8 or 12"]),
        ({"grpo": {"num_generations": 1}}, ["at least 2"]),
        ({"grpo": {"steps_per_generation": 3, "gradient_accumulation_steps": 2}}, ["steps_per_generation is 3"]),
        ({"grpo": {"loss_type": "sapo"}}, ["loss_type is 'sapo'", "dapo"]),
        ({"grpo": {"entropy_coef": 0.1}}, ["grpo.entropy_coef"]),
        ({"grpo": {"reward_weights": [1.0, 2.0]}}, ["2 weights for 1 rewards"]),
        ({"rewards": {"acuracy": {}}}, ["no reward is called 'acuracy'", "accuracy"]),
        ({"limit": 3}, ["3 training tasks", "takes 4", "raise limit"]),
        ({"update": {"row_tokens": 32}}, ["update.row_tokens is 32", "44 or more"]),
        ({"budget": "1k"}, ["1k", "context"]),
        ({"held_out": {"data": {"split": "train"}, "seed": 0}}, ["both trained and held out"]),
    ],
)
def test_settings_that_cannot_be_used(model: Path, tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(USAGE_ERRORS) as raised:
        training.main(training.config(model, tmp_path, **changes), out=tmp_path / "run")
    for word in words:
        assert word in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_replicas_in_several_processes(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    file = training.config(model, tmp_path, engine={"replicas": 3, "kv_cache_gb": 1})
    with pytest.raises(ConfigError, match=r"engine\.replicas is 3, and each of the 2 processes has an engine"):
        plan_training(load_settings(TrainConfig, str(file), {"out": str(tmp_path / "run")}))


def test_a_key_of_trl_at_the_top_is_told_where_it_belongs(model: Path, tmp_path: Path) -> None:
    file = training.config(model, tmp_path, num_generations=8, use_peft=True, samples=2)
    with pytest.raises(USAGE_ERRORS) as raised:
        parse([str(file)])
    said = [line.split(maxsplit=1) for line in str(raised.value).splitlines()[1:]]
    assert said[:2] == [["num_generations", "belongs below grpo:"], ["use_peft", "belongs below grpo:"]]
    assert "unknown key; did you mean held_out.samples?" in said[2][1]


def test_a_template_without_generation_prompt(tmp_path: Path) -> None:
    template = "{% for m in messages %}<|user|> {{ m.content }} <|assistant|> <think>{% endfor %}"
    model = training.save_model(tmp_path / "model", template=template)
    with pytest.raises(USAGE_ERRORS, match="no generation prompt"):
        training.main(training.config(model, tmp_path), out=tmp_path / "run")


def test_keys_of_grpo_config_are_options() -> None:
    loaded, command = parse(["--budget", "64", "--grpo.learning_rate", "3e-4", "--grpo.max_steps=7", "--dry-run"])
    assert loaded.grpo == {"learning_rate": "3e-4", "max_steps": "7"}
    assert command.dry_run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name the settings"),
        (["--budget", "16", "--budgt", "3"], "unknown option --budgt. Did you mean --budget"),
        (["--budget", "16", "--resume", "--clean"], "give one of them"),
        (["nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_command_lines_that_say_nothing_sensible(arguments: list[str], words: str) -> None:
    with pytest.raises(USAGE_ERRORS, match=words):
        parse(arguments)


def test_a_used_folder_is_refused(model: Path, tmp_path: Path) -> None:
    file = training.config(model, tmp_path)
    assert training.main(file, out=tmp_path / "run") == 0
    with pytest.raises(USAGE_ERRORS, match="already holds a training run"):
        training.main(file, out=tmp_path / "run")
    changed = training.config(model, tmp_path, seed=3)
    with pytest.raises(USAGE_ERRORS, match="seed 0 -> 3"):
        training.main(changed, out=tmp_path / "run", resume=True)


def test_what_memory_forces_one_to_lower_may_change_on_the_way(model: Path, tmp_path: Path) -> None:
    assert training.main(training.config(model, tmp_path), out=tmp_path / "run") == 0
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-000004")
    changed = training.config(
        model, tmp_path, update={"row_tokens": 64, "threads": 1}, grpo={"gradient_checkpointing": True}
    )
    assert training.main(changed, out=tmp_path / "run", resume=True) == 0


def test_a_clean_start_leaves_nothing_of_the_run_before(model: Path, tmp_path: Path) -> None:
    file = training.config(model, tmp_path)
    assert training.main(file, out=tmp_path / "run") == 0
    (tmp_path / "run" / "bad-batch-step-000003.json").write_text("{}")
    loaded = load_settings(TrainConfig, file, {"out": str(tmp_path / "run")})
    assert train(loaded, TrainCommand((str(file),), clean=True), training.start_scripted) == 0
    assert not list((tmp_path / "run").glob("bad-batch*"))


def test_measurements_of_weights_that_are_made_anew_are_made_anew(model: Path, tmp_path: Path) -> None:
    file, run = training.config(model, tmp_path), tmp_path / "run"
    assert training.main(file, out=run) == 0
    shutil.rmtree(run / "checkpoints" / "step-000004")
    old = [run / "eval" / f"step-00000{step}" / "old" for step in (0, 4)]
    for path in old:
        path.touch()
    assert training.main(file, out=run, resume=True) == 0
    assert [path.exists() for path in old] == [True, False]


def test_a_reward_that_is_always_equal_is_named(model: Path, tmp_path: Path, capsys: Any) -> None:
    file = training.config(model, tmp_path, rewards={f"{HERE}:always_half": {}})
    assert training.main(file, out=tmp_path / "run") == 0
    said = capsys.readouterr().out
    assert "always_half was 0.5 for all 4 completions: nothing can be learnt" in said
    assert "nothing to learn from" in said
    before, after = (tmp_path / "run" / name / "model.safetensors" for name in ("checkpoints/step-000004", "model"))
    assert before.read_bytes() == after.read_bytes()


def test_a_reward_of_the_wrong_length(model: Path, tmp_path: Path, capsys: Any) -> None:
    file = training.config(model, tmp_path, rewards={f"{HERE}:one_too_few": {}})
    assert training.main(file, out=tmp_path / "run") == 1
    said = capsys.readouterr().err
    assert "one_too_few returned 3 values for 4 samples" in said and "Traceback" not in said


def test_no_memory_at_the_start(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.start, "free_bytes", lambda _: 2_000_000)
    with pytest.raises(USAGE_ERRORS, match=r"out of memory at the start.*needs about .* GiB.*lower|choose a smaller"):
        training.main(training.config(model, tmp_path), out=tmp_path / "run")


def test_a_loss_that_is_no_number_stops_with_the_batch(model: Path, tmp_path: Path, capsys: Any) -> None:
    file = training.config(model, tmp_path, grpo={"learning_rate": 1e25, "lr_scheduler_type": "constant"})
    assert training.main(file, out=tmp_path / "run") == 1
    assert "the batch is in" in capsys.readouterr().err
    [batch] = (tmp_path / "run").glob("bad-batch-step-*.json")
    assert read_json(batch)["rollouts"][0]["generation"]["completion_ids"]
    assert read_json(tmp_path / "run" / "manifest.json")["status"] == "failed"


def test_a_full_disk_leaves_the_last_good_checkpoint(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = training.config(model, tmp_path)
    assert training.main(file, out=tmp_path / "whole") == 0
    save = rl.checkpoints.torch.save

    def full(state: Mapping[str, Any], target: Any) -> None:
        if state["step"] == 4:
            target.write(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(state, target)

    with monkeypatch.context() as patched:
        patched.setattr(rl.checkpoints.torch, "save", full)
        assert training.main(file, out=tmp_path / "run") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-000002"]
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    whole, run = (tmp_path / name / "model" / "model.safetensors" for name in ("whole", "run"))
    assert whole.read_bytes() == run.read_bytes()


def test_an_interrupt_ends_in_good_order(model: Path, tmp_path: Path, capsys: Any) -> None:
    file = training.config(model, tmp_path)
    assert training.main(file, out=tmp_path / "whole") == 0

    def start(plan: TrainPlan, log: Path) -> Engine:
        engine = training.start_scripted(plan, log)
        step, calls = engine.step, iter(range(1000))

        def interrupted() -> list[Output]:
            if next(calls) == 80:
                os.kill(os.getpid(), signal.SIGINT)
            return step()

        setattr(engine, "step", interrupted)  # noqa: B010
        return engine

    assert training.main(file, out=tmp_path / "run", start=start) == 130
    assert "--resume" in capsys.readouterr().err
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    whole, run = (tmp_path / name / "model" / "model.safetensors" for name in ("whole", "run"))
    assert whole.read_bytes() == run.read_bytes()


DEADLINE_S = 0.5


def test_a_verifier_that_hangs_or_dies_does_not_stop_the_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WorkerPool("tests.end_to_end.hostile:hostile", size=4, deadline_s=DEADLINE_S, memory_bytes=1 << 30)
    numbers = iter(range(100_000))

    def verify(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
        try:
            right, seconds = pool.call(next(numbers))
        except JobTimeout:
            return Verdict(Status.TIMEOUT, None, reference, "hostile", DEADLINE_S)
        except JobFailed as error:
            return Verdict(Status.ERROR, None, reference, "hostile", 0.1, str(error))
        return Verdict(Status.CORRECT if right else Status.WRONG, answer, reference, "hostile", seconds)

    monkeypatch.setitem(verifiers.VERIFIERS, "countdown", verify)
    try:
        pool.call(0)  # warm
        assert training.main(training.config(model, tmp_path), out=tmp_path / "run") == 0
    finally:
        pool.close()
    steps = [line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if "reward" in line]
    assert len(steps) == 4
    assert sum(line["verdicts/timeout"] for line in steps) > 0 and sum(line["verdicts/error"] for line in steps) > 0
    assert all(line["time/step"] < 10 * DEADLINE_S for line in steps)


def test_a_verifier_that_always_fails_stops_the_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
        raise OSError("the judge is away")

    monkeypatch.setitem(verifiers.VERIFIERS, "countdown", broken)
    assert training.main(training.config(model, tmp_path), out=tmp_path / "run") == 1
    said = capsys.readouterr().err
    assert "16 of 16 completions could not be scored" in said and "the judge is away" in said


def test_a_checkpoint_of_another_shape_is_no_training_run(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "run")
    with pytest.raises(USAGE_ERRORS, match="not the folder of a training run"):
        training.main(training.config(model, tmp_path), out=tmp_path / "run")
