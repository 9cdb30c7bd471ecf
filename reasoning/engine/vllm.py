"""vLLM as the engine, on the CPU and on CUDA: the only module that imports vllm.

One in-process core is driven step by step, one level below `LLMEngine.step`: `InputProcessor` makes the
requests, the core's client returns the ids of each step, the ledger books them. vLLM's own output processor
makes objects for every request in every step and its statistics cost five times as much again: at 256
sequences together 1 ms a step. The events and prefill statistics that they are made of are in what the core
returns.

vLLM and torch read environment variables while they are imported, so the imports are inside functions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reasoning.engine.base import (
    CacheTooSmall,
    EngineError,
    EngineSettings,
    EngineState,
    Output,
    Request,
    StopReason,
    refusal,
)
from reasoning.engine.energy import EnergyMeter
from reasoning.engine.environment import log_to, preload_kept, prepare_environment
from reasoning.engine.kv_probe import KvProbe
from reasoning.engine.ledger import Ledger
from reasoning.engine.memory import GIB, cpu_kv_bytes
from reasoning.engine.steps import Steps, StepWatch

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.engine.llm_engine import LLMEngine

CPU_BLOCK_SIZE = 32  # tokens: vLLM's CPU kernels want a multiple of 32, and prefixes are cached in whole blocks
CACHE_TOO_SMALL = ("larger than the available KV cache", "No available memory for the cache blocks")
"""What vLLM 0.26 and 0.31 say when one request of the longest kind does not fit."""


class VllmEngine:
    """The `Engine` protocol over vLLM 0.26 to 0.31; one a process.

    On the CPU float32 and eager unless told otherwise (`dtype="auto"` would turn a float32 checkpoint into
    bfloat16: slower, and off-policy for a trainer); on CUDA the checkpoint's dtype and CUDA graphs. Every request
    samples with its own seed: its ids do not depend on what else is in the batch, up to rounding.
    Starting seeds the global random number generators of the process with `seed` (vLLM does this).
    """

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        max_model_len: int,
        seed: int = 0,
        log: Path | None = None,
        *,
        logprobs: bool = False,
        profile: bool = False,
    ) -> None:
        """Load `model` (a folder or a hub name) for requests of at most `max_model_len` tokens, prompt included.

        vLLM's log goes to the file `log`, or to stderr. `logprobs`: outputs carry the log-probability of every id, as
        it was sampled. `profile`: they carry the time of every id, and `take_steps` has what each step held.

        EngineError when the model does not fit or vLLM refuses it.
        """
        prepare_environment()
        if log is not None:
            log_to(log)
        self.max_model_len = max_model_len
        self._stream_interval = settings.stream_interval
        if logprobs:
            settings = replace(settings, extra={"logprobs_mode": "processed_logprobs", **settings.extra})
        self._log = log
        with self._errors(f"vLLM could not start with {model}"), preload_kept():
            self._config = _vllm_config(model, settings, max_model_len, seed)
            self._engine = _start(self._config)
        self._client: Any = self._engine.engine_core
        self._scheduler: Any = self._client.engine_core.scheduler
        self._tasks = self._engine.get_supported_tasks()
        self._vocabulary = self._config.model_config.get_vocab_size()
        self._logprobs = logprobs
        self._ledger = Ledger(logprobs, times=profile)
        self._kv = KvProbe(self._scheduler, self._ledger.book_recomputed)
        self._watch = StepWatch(self._scheduler) if profile else None
        self._energy = _energy_meter(self._config)
        self._refused: list[Output] = []
        self._started = time.monotonic()
        self._steps = self._steps_sampled = 0
        self._step_seconds = 0.0

    def add(self, request: Request) -> None:
        """Queue a request. One that can never run becomes an error output of the next step."""
        if request.id in self._ledger:
            raise EngineError(f"request {request.id} is already running")
        reason = refusal(request, self.max_model_len) or self._unknown_id(request)
        core_id = self._ledger.new_core_id(request.id)
        if reason is None:
            with self._errors(f"the engine could not take request {request.id}"):
                reason = self._submit(core_id, request)
        if reason is None:
            self._ledger.open(core_id, request.id, self._stream_interval if request.stream else sys.maxsize)
        else:
            self._refused.append(Output(request.id, (), finished=True, stop_reason=StopReason.ERROR, error=reason))

    def step(self) -> list[Output]:
        outputs, self._refused = self._refused, []
        if not self._ledger:
            return outputs
        start = time.perf_counter()
        with self._errors(f"the engine died in step {self._steps + 1}, {len(self._ledger)} requests were unfinished"):
            batch = self._client.get_output()
        outputs += self._ledger.collect(batch.outputs, batch.timestamp)
        end = time.perf_counter()
        self._steps += 1
        self._step_seconds += end - start
        if self._watch is not None:
            self._watch.note(start, end)
            if not self._ledger:
                self._watch.rest()
        return outputs

    def take_steps(self) -> Steps:
        return Steps() if self._watch is None else self._watch.take()

    def abort(self, request_id: str) -> None:
        core_id = self._ledger.forget(request_id)
        if core_id is not None:
            with self._errors(f"the engine could not abort request {request_id}"):
                self._client.abort_requests([core_id])
        if self._watch is not None and not self._ledger:
            self._watch.rest()

    @property
    def unfinished(self) -> int:
        return len(self._ledger) + len(self._refused)

    @property
    def free_blocks(self) -> int:
        return self._kv.free_blocks

    def state(self) -> EngineState:
        running, waiting = self._scheduler.get_request_counts()
        kv = self._kv.sample()
        steps = self._steps - self._steps_sampled
        step_s = self._step_seconds / steps if steps else 0.0
        self._steps_sampled, self._step_seconds = self._steps, 0.0
        return EngineState(
            time_s=time.monotonic() - self._started,
            running=running,
            waiting=waiting,
            kv_blocks_used=kv.used,
            kv_blocks_total=kv.total,
            kv_blocks_predicted=kv.predicted,
            kv_blocks_shared=kv.shared,
            block_size=self._config.cache_config.block_size,
            context_tokens=kv.context_tokens,
            preemptions=self._ledger.preemptions,
            recomputed_tokens=self._ledger.recomputed_tokens,
            cached_tokens=self._ledger.cached_tokens,
            prompt_tokens=self._ledger.prompt_tokens,
            generated_tokens=self._ledger.generated_tokens,
            steps=self._steps,
            step_s=step_s,
            energy_j=None if self._energy is None else self._energy.joules(),
        )

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Replace the weights by a whole checkpoint: (name, tensor) pairs, named as in the checkpoint.

        EngineError while requests are unfinished, whose caches belong to the old weights, and when the weights do
        not fit the model, which leaves the engine unusable.
        """
        if self._ledger:
            raise EngineError(f"weights cannot change under {len(self._ledger)} unfinished requests; abort them first")
        with self._errors("the engine could not take the new weights"):
            self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
            self._engine.apply_model(_repack_tied_head)
        if not self._client.reset_prefix_cache():
            raise EngineError("the engine still holds prefixes that were cached with the old weights")

    def describe(self) -> dict[str, Any]:
        import torch
        import vllm
        from vllm.platforms import current_platform

        model, cache, scheduler = self._config.model_config, self._config.cache_config, self._config.scheduler_config
        cache_blocks = self._kv.cache.blocks + 1
        layers = self._config.compilation_config.static_forward_context.values()
        backends = {layer.attn_backend.get_name() for layer in layers if hasattr(layer, "attn_backend")}
        return {
            "engine": "vllm",
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "device": current_platform.get_device_name(),
            "dtype": str(model.dtype).removeprefix("torch."),
            "enforce_eager": model.enforce_eager,
            "attention_backend": ", ".join(sorted(backends)),
            "model_runner": 2 if self._config.use_v2_model_runner else 1,
            "async_scheduling": scheduler.async_scheduling,
            "prefix_caching": cache.enable_prefix_caching,
            "block_size": cache.block_size,
            "kv_blocks": cache_blocks,
            "kv_bytes": cache_blocks * self._kv.cache.block_bytes,
            "kv_cache": self._kv.cache.as_json(),
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "max_model_len": self.max_model_len,
        }

    def close(self) -> None:
        self._client.shutdown()

    @contextmanager
    def _errors(self, what: str) -> Generator[None]:
        """Every failure inside vLLM leaves as an EngineError that says what was going on."""
        try:
            yield
        except EngineError:
            raise
        except Exception as error:
            log = f" (vLLM's log: {self._log})" if self._log else ""
            kind = CacheTooSmall if any(words in str(error) for words in CACHE_TOO_SMALL) else EngineError
            raise kind(f"{what}: {type(error).__name__}: {error}{log}") from error

    def _unknown_id(self, request: Request) -> str | None:
        if max(request.prompt_ids) < self._vocabulary:
            return None
        return f"the prompt holds the id {max(request.prompt_ids)}, the model knows ids below {self._vocabulary}"

    def _submit(self, core_id: str, request: Request) -> str | None:
        """Hand the request to the core; why vLLM finds it invalid, if it does."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError
        from vllm.inputs import tokens_input

        try:
            params = SamplingParams(
                temperature=request.temperature,
                top_p=request.top_p,
                top_k=request.top_k,
                min_p=request.min_p,
                seed=request.seed,
                max_tokens=request.max_tokens,
                logprobs=0 if self._logprobs else None,  # 0: of the sampled id alone
                stop_token_ids=list(request.stop_ids),
                ignore_eos=True,  # the request's stop ids are the only ones
                detokenize=False,
            )
            prompt = tokens_input(list(request.prompt_ids))
            core_request = self._engine.input_processor.process_inputs(core_id, prompt, params, self._tasks)
        except (ValueError, VLLMValidationError) as error:  # the second is one of the first until vLLM 0.26
            return str(error)
        self._client.add_request(core_request)
        return None


def _vllm_config(model: str, settings: EngineSettings, max_model_len: int, seed: int) -> VllmConfig:
    import psutil
    import torch
    from vllm import EngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext

    cpu = current_platform.is_cpu()
    arguments: dict[str, Any] = {
        "model": model,
        "max_model_len": max_model_len,
        "seed": seed,
        "dtype": settings.dtype or ("float32" if cpu else "auto"),
        "enforce_eager": cpu if settings.enforce_eager is None else settings.enforce_eager,
        "block_size": settings.block_size or (CPU_BLOCK_SIZE if cpu else None),
        "max_num_seqs": settings.max_num_seqs,
        "gpu_memory_utilization": settings.gpu_memory_utilization,
        "kv_cache_memory_bytes": None if settings.kv_cache_gb is None else int(settings.kv_cache_gb * GIB),
        "enable_prefix_caching": True,
        # After a prompt that was computed in parts vLLM rewinds the request's random generator, which torch's
        # CPU generator cannot do: the engine would die. So every prompt is computed in one step there.
        "enable_chunked_prefill": False if cpu else None,
        "skip_tokenizer_init": True,
        "use_tqdm_on_load": False,
        "disable_log_stats": False,  # the core then reports events and prefill statistics
        **settings.extra,
    }
    # The context of vLLM's own offline class; it decides how many tokens a step may hold.
    config = EngineArgs(**arguments).create_engine_config(UsageContext.LLM_CLASS)
    if cpu:
        shape, cache = config.model_config, config.cache_config
        assert isinstance(shape.dtype, torch.dtype)  # no longer the name that the arguments held
        # keys and values x layers x KV heads x head size x bytes a number
        heads = shape.get_num_layers(config.parallel_config) * shape.get_num_kv_heads(config.parallel_config)
        cache.kv_cache_memory_bytes = cpu_kv_bytes(
            token_bytes=2 * heads * shape.get_head_size() * shape.dtype.itemsize,
            block_size=cache.block_size,
            max_model_len=max_model_len,
            max_num_seqs=config.scheduler_config.max_num_seqs,
            free_bytes=psutil.virtual_memory().available,
            asked_bytes=cache.kv_cache_memory_bytes,
        )
    return config


def _start(config: VllmConfig) -> LLMEngine:
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    return LLMEngine.from_vllm_config(config, usage_context=UsageContext.LLM_CLASS)


def _energy_meter(config: VllmConfig) -> EnergyMeter | None:
    """None where the devices have no NVML, or one that does not count."""
    from vllm.platforms import current_platform

    if not current_platform.is_cuda():
        return None
    import torch
    from vllm.third_party import pynvml

    devices = range(config.parallel_config.world_size)
    try:
        return EnergyMeter(pynvml, [str(torch.cuda.get_device_properties(n).uuid) for n in devices])
    except pynvml.NVMLError:
        return None


def _repack_tied_head(model: Any) -> None:
    """Make a tied output head follow the embedding that `reload_weights` replaced.

    On the CPU the head computes from a packed copy of the shared tensor, and reloading packs only the layers
    that weights are loaded into by name. Where nothing is packed this does nothing.
    """
    head = getattr(model, "lm_head", None)
    if head is not None and model.config.tie_word_embeddings:
        head.quant_method.process_weights_after_loading(head)
