"""Rollouts from a vLLM server: TRL's own client over HTTP, a server that speaks its protocol, no NCCL."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import reasoning.summary
import rl.served
import rl.served_engine
import rl.start
from reasoning.config import ConfigError, load_settings
from reasoning.engine.base import Engine, EngineError, Output, Request, StopReason
from reasoning.engine.scripted import ScriptedEngine
from reasoning.files import read_json, read_json_lines
from reasoning.train_config import RolloutEngine, TrainConfig
from reasoning.train_plan import TrainPlan, plan_training
from rl.arguments import grpo_arguments
from rl.served import check_served, connect
from rl.served_engine import ServedEngine
from tests.end_to_end import training
from tests.rl.vllm_server import Server, running

CUDA = torch.device("cuda")  # by name only: what would use it is replaced
END = 7


def served(url: str, log: Path, *, context: int = 512, timeout: float = 5, concurrency: int = 4) -> ServedEngine:
    settings = {"vllm_mode": "server", "vllm_server_base_url": url, "vllm_server_timeout": timeout}
    args = grpo_arguments(settings, out=log.parent, seed=0, max_completion_length=9, rewards=1, use_cpu=True)
    return connect(args, "tiny", context, concurrency=concurrency, device=CUDA, log=log)


def request(name: str, *, prompt: int = 3, max_tokens: int = 5, seed: int = 11) -> Request:
    return Request(name, (1,) * prompt, max_tokens, 0.9, 0.8, seed, (END,), top_k=4, min_p=0.1)


def finish(engine: ServedEngine) -> dict[str, Output]:
    outputs: dict[str, Output] = {}
    while engine.unfinished:
        outputs |= {output.request_id: output for output in engine.step()}
    return outputs


def script(asked: Request) -> tuple[int, ...]:
    return (*range(20, 20 + min(asked.seed, 40)), END)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[Server]:
    engine = ScriptedEngine(script, 512, logprob=lambda asked, place: -(0.1 * asked.seed + place) / 3)
    with running(engine, monkeypatch) as started:
        yield started


def test_ids_and_log_probabilities_come_as_the_server_wrote_them(server: Server, tmp_path: Path) -> None:
    engine = served(server.url, tmp_path / "log")
    engine.add(request("long", seed=9))
    engine.add(request("short", seed=2))
    outputs = finish(engine)
    assert outputs["long"].new_ids == (20, 21, 22, 23, 24)
    assert outputs["long"].stop_reason is StopReason.LENGTH
    assert outputs["long"].logprobs == tuple(-(0.1 * 9 + place) / 3 for place in range(5))  # to the last bit
    assert outputs["short"].new_ids == (20, 21, END)
    assert outputs["short"].stop_reason is StopReason.STOP
    assert all(output.finished for output in outputs.values())
    state = engine.state()
    assert (state.prompt_tokens, state.generated_tokens) == (6, 8)
    engine.close()


def test_a_request_keeps_its_sampling_and_its_seed(server: Server, tmp_path: Path) -> None:
    engine = served(server.url, tmp_path / "log", context=10)
    engine.add(request("one", seed=2**63 - 1, max_tokens=1))
    finish(engine)
    [body] = server.completions
    expected = {"temperature": 0.9, "top_p": 0.8, "top_k": 4, "min_p": 0.1, "max_tokens": 1, "seed": 2**63 - 1}
    assert expected.items() <= body.items()
    assert body["prompt"] == [[1, 1, 1]] and body["stop_token_ids"] == [END] and body["repetition_penalty"] == 1
    engine.add(request("two", max_tokens=100, seed=30))  # the context ends first
    assert len(finish(engine)["two"].new_ids) == 7
    engine.add(request("full", prompt=10))
    assert "leaves no room in the context of 10" in str(finish(engine)["full"].error)
    assert len(server.completions) == 2
    engine.close()


def test_what_was_aborted_is_not_seen_again_even_under_its_old_name(server: Server, tmp_path: Path) -> None:
    engine = served(server.url, tmp_path / "log", concurrency=1)
    with server.lock:  # the server is busy: "again" is with it, "queued" waits here
        engine.add(request("again", seed=9))
        engine.add(request("queued"))
        while "/v1/completions" not in server.calls:
            time.sleep(0.01)
        engine.abort("again")
        engine.abort("queued")
        engine.abort("unknown")
        assert engine.unfinished == 0
        engine.add(request("again", seed=2))
    assert {name: one.new_ids for name, one in finish(engine).items()} == {"again": (20, 21, END)}
    assert [body["seed"] for body in server.completions] == [9, 2]
    engine.close()


def test_a_request_that_the_server_refuses_ends_the_run_by_name(server: Server, tmp_path: Path) -> None:
    engine = served(server.url, tmp_path / "log")
    server.refuse = lambda path: path == "/v1/completions"
    engine.add(request("one"))
    with pytest.raises(EngineError, match=r"server failed on request one: Request failed: 400, .*no such luck"):
        finish(engine)
    engine.close()


def test_a_server_that_hangs_is_noticed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.served_engine, "QUIET_S", 0.2)
    engine = served(server.url, tmp_path / "log")
    with server.lock:  # which keeps it from answering
        engine.add(request("one"))
        asked = server.calls.count("/health")
        while server.calls.count("/health") == asked:  # it is well, only slow
            assert engine.step() == []
        server.refuse = lambda path: path == "/health"
        with pytest.raises(EngineError, match="the vLLM server does not answer, 1 requests were unfinished: 400"):
            finish(engine)
    engine.close()


def test_weights_are_sent_whole_in_one_update_of_bounded_parts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rl.served_engine, "CHUNK_BYTES", 40)
    engine = served(server.url, tmp_path / "log")
    assert "/init_weight_transfer_engine" in server.calls
    server.calls.clear()
    loaded: list[tuple[str, torch.Tensor]] = []
    monkeypatch.setattr(server.engine, "load_weights", loaded.extend)
    weights = [(name, torch.full((6,), float(number))) for number, name in enumerate("abc")]  # 24 bytes each
    engine.load_weights(iter(weights))
    assert [path.strip("/") for path in server.calls] == [
        *("start_weight_update", "update_weights", "update_weights", "finish_weight_update", "reset_prefix_cache")
    ]
    assert server.updates == [["a", "b", "c"]]
    assert all(torch.equal(got, given) for (_, got), (_, given) in zip(loaded, weights, strict=True))
    with server.lock:
        engine.add(request("one"))
        with pytest.raises(EngineError, match="weights cannot change under 1 unfinished requests"):
            engine.load_weights(weights)
    finish(engine)
    server.refuse = lambda path: path == "/start_weight_update"
    with pytest.raises(EngineError, match="the vLLM server could not take the new weights"):
        engine.load_weights(weights)
    engine.close()


def test_only_the_first_of_several_processes_sends_weights(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rl.served, "joined", lambda: SimpleNamespace(is_first=False))
    engine = served(server.url, tmp_path / "log")
    engine.load_weights([("a", torch.zeros(2))])
    assert set(server.calls) == {"/health", "/v1/models", "/server_info"}
    engine.add(request("one", seed=2))
    assert finish(engine)["one"].new_ids == (20, 21, END)
    engine.close()


def test_no_server_is_one_message_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    file = training.config(training.save_model(tmp_path / "model"), tmp_path)
    monkeypatch.setattr(rl.start, "start_trainer", lambda **_: pytest.fail("a model would be loaded"))
    assert training.main(file, out=tmp_path / "run", start=lambda _, log: served(url, log, timeout=0.1)) == 1
    message = rf"error: no vLLM server answers at {url} after 0\.1 s \(grpo\.vllm_server_timeout\)"
    assert re.search(message + r".*\n  CUDA.* trl vllm-serve --model tiny --max_model_len 512", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("model_config", "logprobs_mode", "raw_logprobs", "logprobs_mode is raw_logprobs.*processed_logprobs"),
        ("model_config", "max_model_len", 100, r"context is 100 tokens, .* may have 512; .*\n.*--max_model_len 512"),
        ("weight_transfer_config", "", None, "no weight-transfer engine. Restart it with"),
    ],
)
def test_a_server_that_cannot_be_trained_with_is_refused(
    server: Server, tmp_path: Path, section: str, key: str, value: Any, message: str
) -> None:
    if key:
        server.info[section][key] = value
    else:
        server.info[section] = value
    with pytest.raises(EngineError, match=rf"(?s)the vLLM server at {server.url} cannot be used: .*{message}"):
        served(server.url, tmp_path / "log")


def test_settings_that_are_the_servers_are_refused_before_anything_starts(tmp_path: Path) -> None:
    settings = {"vllm_mode": "server", "use_vllm": True}
    args = grpo_arguments(settings, out=tmp_path, seed=0, max_completion_length=9, rewards=1, use_cpu=True)
    assert not args.use_vllm  # TRL's trainer would connect, too
    check_served(args, RolloutEngine(max_num_seqs=7), CUDA)
    with pytest.raises(ConfigError, match=r"engine\.dtype has no effect .*give it to the server"):
        check_served(args, RolloutEngine(dtype="bfloat16"), CUDA)
    model = training.save_model(tmp_path / "model")
    file = training.config(model, tmp_path, grpo={"vllm_mode": "server"})
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="through NCCL, from a GPU, and there is none here"):
            plan_training(load_settings(TrainConfig, file, {}))


class OneByOne(training.SamplingEngine):
    """One request a step: what it computes does not depend on what else is in the batch, as that of `Server`."""

    def step(self) -> list[Output]:
        waiting, self._waiting = self._waiting, self._waiting[:1]
        return [*super().step(), *self._keep(waiting[1:])]

    def _keep(self, waiting: list[Request]) -> list[Output]:
        self._waiting = waiting
        return []


def test_a_training_with_a_server_is_the_one_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits to the end, held-out runs too: ids and log-probabilities reach the loss, weights the server."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])
    model = training.save_model(tmp_path / "model")
    grpo = {"max_steps": 2, "learning_rate": 1e-2, "per_device_train_batch_size": 8}
    held_out = {"limit": 2, "budgets": [2, 6]}
    checks = {"prompts": 1, "generations": 1}
    changes = {"budget": 6, "max_answer_tokens": 8, "rewards": {"repetition": {"n": 1}}, "held_out": held_out}
    file = training.config(model, tmp_path, checks=checks, grpo=grpo, **changes)
    assert training.main(file, out=tmp_path / "without", start=lambda plan, _: OneByOne(plan)) == 0
    with pytest.MonkeyPatch.context() as patched:
        plan = plan_training(load_settings(TrainConfig, file, {}))
        with running(OneByOne(plan), patched) as server:

            def start(plan: TrainPlan, log: Path) -> Engine:
                return served(server.url, log, context=plan.max_model_len)

            assert training.main(file, out=tmp_path / "with", start=start) == 0
    training.assert_same(tmp_path / "with", tmp_path / "without")
    names = [name for name, _ in _weights(model)]
    assert server.updates == [names] * 3  # before the trial, and after each step
    steps = [line for line in read_json_lines(tmp_path / "with/metrics.jsonl") if "loss" in line]
    assert [line["sampling/sampling_logp_difference/mean"] < 1e-5 for line in steps] == [True] * 2
    for at in ("step-000000", "step-000002"):
        found, expected = (read_json(tmp_path / run / "eval" / at / "results.json") for run in ("with", "without"))
        assert found["points"] == expected["points"]
    assert read_json(tmp_path / "with/manifest.json")["attempts"][0]["engine"]["url"] == server.url


def _weights(model: Path) -> list[tuple[str, torch.Tensor]]:
    from transformers import AutoModelForCausalLM

    return list(AutoModelForCausalLM.from_pretrained(model).named_parameters())
