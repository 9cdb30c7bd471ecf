"""Rollouts from a vLLM server on GPUs of its own, through TRL's client: `grpo.vllm_mode: server`.

The server is stock: `trl vllm-serve`, or `vllm serve` with the flags that it adds. TRL's `VLLMClient` asks it for
completions over HTTP and sends it the weights through NCCL. To everything else it is an engine like any other: one
request a completion, each with a seed of its own, so that budgets, forced answers and exact resume stay what they are.

What it does not tell: the state of its cache (held-out runs have no KV figures) and the ids of a request before it has
ended, so thinking that is cut has been written to the end of the answer's cap.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reasoning.config import ConfigError
from reasoning.console import note
from reasoning.engine.base import EngineError
from reasoning.engine.environment import log_to
from reasoning.eval_config import EngineSection
from rl.distributed import joined
from rl.served_engine import ServedEngine, client_errors

if TYPE_CHECKING:
    from trl import GRPOConfig
    from trl.generation.vllm_client import VLLMClient

OWN = frozenset({"max_num_seqs"})
"""Keys of `engine` that are not the server's: how many completions are asked for at once."""


def check_served(args: GRPOConfig, engine: EngineSection, device: torch.device) -> None:
    """Refuse, before anything starts, settings that a run with a server cannot have.

    Raises:
        ConfigError: with what to write instead.
    """
    if args.vllm_mode != "server":
        return
    if device.type != "cuda":
        raise ConfigError(
            "grpo.vllm_mode: server sends the weights through NCCL, from a GPU, and there is none here; leave it out: "
            "rollouts then come from an engine in this process"
        )
    if taken := sorted(engine.model_fields_set - OWN):
        raise ConfigError(
            f"engine.{taken[0]} has no effect with grpo.vllm_mode: server; leave it out, and give it to the server"
        )


def connect(
    args: GRPOConfig, model: str, max_model_len: int, *, concurrency: int, device: torch.device, log: Path
) -> ServedEngine:
    """The server that `args` names, checked; the first process is connected to take weights to it.

    Waits for it as long as `vllm_server_timeout` says. What TRL's client logs of vLLM goes to the file `log`.

    Raises:
        EngineError: there is none, or it was started in a way that cannot be trained with; says what to type.
    """
    log_to(log)
    from trl.generation.vllm_client import VLLMClient

    processes = joined()
    url = args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    start = f"CUDA_VISIBLE_DEVICES=1 trl vllm-serve --model {model} --max_model_len {max_model_len} --dtype bfloat16"
    if processes.is_first:
        note(f"looking for the vLLM server at {url} (at most {args.vllm_server_timeout:g} s)")
    try:
        client = VLLMClient(url, group_port=args.vllm_group_port, connection_timeout=args.vllm_server_timeout)
    except OSError as error:
        raise EngineError(
            f"no vLLM server answers at {url} after {args.vllm_server_timeout:g} s (grpo.vllm_server_timeout); start "
            f"one on a GPU of its own:\n  {start}"
        ) from error
    with client_errors(f"the vLLM server at {url} cannot be used"):
        described = _described(client, url)
        _check(described, max_model_len, start)
        if processes.is_first:
            client.init_communicator(device)
    return ServedEngine(client, max_model_len, concurrency, described, brings_weights=processes.is_first)


def _described(client: VLLMClient, url: str) -> dict[str, Any]:
    """What the server says of itself, for the manifest."""
    info = client.get_server_info()
    model, parallel, scheduler = info["model_config"], info["parallel_config"], info["scheduler_config"]
    return {
        "engine": "vllm server",
        "url": url,
        "model": model["model"],
        "dtype": str(model["dtype"]).removeprefix("torch."),
        "logprobs_mode": model["logprobs_mode"],
        "max_model_len": model["max_model_len"],
        "max_num_seqs": scheduler["max_num_seqs"],
        "tensor_parallel_size": parallel["tensor_parallel_size"],
        "data_parallel_size": parallel["data_parallel_size"],
    }


def _check(server: dict[str, Any], max_model_len: int, start: str) -> None:
    if server["logprobs_mode"] != "processed_logprobs":
        raise EngineError(
            f"its logprobs_mode is {server['logprobs_mode']}, and the loss needs the log-probabilities that it sampled "
            f"with; start it with --logprobs-mode processed_logprobs, as trl vllm-serve does:\n  {start}"
        )
    if server["max_model_len"] < max_model_len:
        raise EngineError(
            f"its context is {server['max_model_len']:,} tokens, and a prompt with its completion may have "
            f"{max_model_len:,}; start it again:\n  {start}"
        )
