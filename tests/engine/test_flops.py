"""Our count of operations beside vLLM's own, which its option `enable_mfu_metrics` turns into counters.

vLLM counts a prompt as if every token of it saw all others, so that long prompts differ; decoding does not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from vllm import EngineArgs
from vllm.v1.metrics.perf import AttentionMetrics, ExecutionContext, ModelMetrics

from eval.compute import RunWork
from eval.curves import GradedSample
from reasoning.compute import Storage, decode_flops, prefill_flops, scores_of
from reasoning.model_shape import load_shape
from reasoning.types import FinishReason, SampleKey
from tests.test_model_shape import LLAMA_8B, QWEN3_8B, config

QWEN2 = config("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True)
GEMMA3 = config(
    *("gemma3_text", 1152, 26, 4, 1, 6912, 262144),
    head_dim=256,
    sliding_window=512,
    layer_types=[("full" if number % 6 == 5 else "sliding") + "_attention" for number in range(26)],
)
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}


def row(number: int, prompt: int, completion: int) -> GradedSample:
    flags = (False, False, False, False)
    key = SampleKey(f"t{number}", 0, 1000)
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "decoded_tokens": completion}
    return GradedSample(key, None, "correct", completion, 0, FinishReason.ANSWERED, *flags, None, **counts)


def test_a_run_of_the_engine(engine, checkpoint, run, request_of, monkeypatch):
    """What vLLM's counters would have counted in the steps of a real run, prefix cache included."""
    metrics, counted = ModelMetrics(engine._config), []
    schedule = engine._scheduler.schedule

    def watch(*given: Any) -> Any:
        scheduled = schedule(*given)
        counted.append(metrics.get_step_perf_stats_per_gpu(scheduled).num_flops_per_gpu)
        return scheduled

    monkeypatch.setattr(engine._scheduler, "schedule", watch)
    before = engine.state()
    prompts = [40, 40, 40, 40, 8, 9]
    requests = [request_of(700 + n, length=length, max_tokens=150 + n) for n, length in enumerate(prompts)]
    requests[1] = request_of(700, name="again", length=40, max_tokens=151)  # its prompt is cached, or computed beside
    run(requests)
    run([request_of(702, name="later", length=40, max_tokens=150)])
    after = engine.state()
    work = RunWork(
        load_shape(checkpoint),
        Storage(4, 4, 4),
        after.steps - before.steps,
        after.generated_tokens - before.generated_tokens,
        after.prompt_tokens - before.prompt_tokens - after.cached_tokens + before.cached_tokens,
        seconds=1.0,
        joules=None,
    )
    rows = [row(n, length, 150 + n) for n, length in enumerate(prompts)] + [row(9, 40, 150)]
    assert work.generated_tokens == sum(one.decoded_tokens for one in rows)
    assert work.run_flops(rows) == pytest.approx(sum(counted), rel=0.05)


@pytest.fixture(scope="module", params=[LLAMA_8B, QWEN2, QWEN3_8B, GEMMA3], ids=lambda found: found["model_type"])
def both(request, tmp_path_factory) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("shape")
    found = request.param | {"architectures": [ARCHITECTURES[request.param["model_type"]]]}
    (folder / "config.json").write_text(json.dumps(found))
    arguments = EngineArgs(model=str(folder), skip_tokenizer_init=True, load_format="dummy", enforce_eager=True)
    return load_shape(found), ModelMetrics(arguments.create_engine_config())


def theirs(metrics: ModelMetrics, requests: list[tuple[int, int, bool]]) -> int:
    """Of (new tokens, tokens in sight with them, whether it is a prompt)."""
    context = ExecutionContext()
    for request in requests:
        context.add(*request)
    return metrics.get_num_flops(context)


@pytest.mark.slow  # vLLM looks at each architecture in a process of its own
@pytest.mark.timeout(300)
def test_published_shapes(both):
    shape, metrics = both
    if len(scores_of(shape)) > 1 and "sliding_window" not in AttentionMetrics.model_fields:
        pytest.skip("this vLLM counts windows as if they were none")
    for position in (0, 1000, 10_000, 39_000):
        ours = decode_flops(shape, position, position + 1)
        assert ours == pytest.approx(theirs(metrics, [(1, position + 1, False)]), rel=0.01)
    assert prefill_flops(shape, 0, 1000) == pytest.approx(theirs(metrics, [(1000, 1000, True)]), rel=0.05)
    trace = [(200, 200, True), *((1, position + 1, False) for position in range(200, 8000))]
    fork = [(16, 4016, True), *((1, position + 1, False) for position in range(4016, 4500))]
    ours = prefill_flops(shape, 0, 200) + decode_flops(shape, 200, 8000)
    ours += prefill_flops(shape, 4000, 4016) + decode_flops(shape, 4016, 4500)
    assert ours == pytest.approx(theirs(metrics, trace + fork), rel=0.05)
