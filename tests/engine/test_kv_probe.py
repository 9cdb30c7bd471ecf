"""What is read of vLLM's cache: by hand on stand-ins of its objects, and step by step on the real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning.engine.kv_probe import KvProbe, read_cache
from reasoning.kv_cache import CacheGroup, KvCache
from reasoning.layers import MixerKind

ROOT = Path(__file__).parents[2]


class AttentionSpec(SimpleNamespace):
    pass


class FullAttentionSpec(AttentionSpec):
    pass


class MLAAttentionSpec(FullAttentionSpec):
    pass


class SlidingWindowSpec(AttentionSpec):
    pass


class MambaSpec(SimpleNamespace):
    pass


def group(spec: SimpleNamespace, layers: int) -> SimpleNamespace:
    return SimpleNamespace(kv_cache_spec=spec, layer_names=[f"layer {n}" for n in range(layers)])


def config(tensors: list[SimpleNamespace], *groups: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(num_blocks=10, kv_cache_tensors=tensors, kv_cache_groups=list(groups))


def test_a_block_takes_the_largest_groups_page_in_both_layouts():
    full = group(FullAttentionSpec(block_size=16, page_size_bytes=100, sliding_window=None), 2)
    sliding = group(SlidingWindowSpec(block_size=16, page_size_bytes=100, sliding_window=64), 1)
    expected = KvCache(
        (CacheGroup(MixerKind.FULL, 2, 16, 200), CacheGroup(MixerKind.SLIDING, 1, 16, 100, window=64)), 200, 9
    )
    own_allocations = [SimpleNamespace(size=1000, shared_by=["a", "b"]), SimpleNamespace(size=1000, shared_by=["c"])]
    in_one = [SimpleNamespace(size=2000, layers=["a", "c"]), SimpleNamespace(size=2000, layers=["b"])]
    assert read_cache(config(own_allocations, full, sliding)) == expected
    assert read_cache(config(in_one, full, sliding)) == expected


def test_latents_states_and_layers_that_differ():
    tensors = [SimpleNamespace(size=5000, layers=["a"])]
    latent = read_cache(config(tensors, group(MLAAttentionSpec(block_size=64, page_size_bytes=100), 3)))
    assert latent.groups == (
        CacheGroup(MixerKind.LATENT, 3, 64, 500),
    )  # alone: the whole block, whatever one layer has
    for mode, blocks in (("none", 1), ("align", 2), ("all", 0)):
        spec = MambaSpec(block_size=64, page_size_bytes=500, mamba_cache_mode=mode)
        assert read_cache(config(tensors, group(spec, 1))).groups[0].state_blocks == blocks


class Scheduler:
    """Running requests with the blocks that they hold; `schedule` returns what the test says."""

    def __init__(self, **tables: list[SimpleNamespace]) -> None:
        spec = FullAttentionSpec(block_size=16, page_size_bytes=100)
        self.kv_cache_config = config([SimpleNamespace(size=1000, layers=["a"])], group(spec, 1))
        self.scheduler_config = SimpleNamespace(async_scheduling=False)
        self.running = [SimpleNamespace(request_id=name, num_computed_tokens=40, num_tokens=41) for name in tables]
        self.requests = {request.request_id: request for request in self.running}
        manager = SimpleNamespace(req_to_blocks=tables)
        free = 9 - len({block.block_id for table in tables.values() for block in table})
        self.kv_cache_manager = SimpleNamespace(
            block_pool=SimpleNamespace(get_num_free_blocks=lambda: free),
            coordinator=SimpleNamespace(single_type_managers=(manager,)),
        )
        self.output: Any = None

    def schedule(self, throttle: bool) -> Any:
        assert throttle
        return self.output


def block(number: int, holders: int) -> SimpleNamespace:
    return SimpleNamespace(block_id=number, ref_cnt=holders, is_null=False)


def test_blocks_that_requests_share_are_used_once():
    one, two = block(1, 3), block(2, 2)
    scheduler = Scheduler(a=[one, two, block(3, 1)], b=[one, two, block(4, 1)], c=[one, block(5, 1), block(6, 1)])
    state = KvProbe(scheduler, lambda *_: None).sample()
    assert (state.used, state.total, state.predicted, state.shared, state.context_tokens) == (6, 9, 9, 3, 120)
    assert state.used == state.predicted - state.shared


def test_blocks_behind_a_copy_are_shared_too():
    """Two samples computed the same first block; the fork of one found the other's, and its own trace's behind it."""
    first, copy, second = block(1, 2), block(2, 1), block(3, 2)
    scheduler = Scheduler(
        other=[first, block(4, 1), block(5, 1)], trace=[copy, second, block(6, 1)], fork=[first, second, block(7, 1)]
    )
    state = KvProbe(scheduler, lambda *_: None).sample()
    assert (state.used, state.predicted, state.shared) == (7, 9, 2)


@pytest.mark.parametrize(("asynchronous", "held"), [(False, 9), (True, 10)])
def test_a_step_that_still_runs_keeps_its_window(asynchronous, held):
    """A window of 90: 70 tokens are out of sight once 159 are done, 69 once 158 are; in blocks of 10, of 160 tokens."""
    scheduler = Scheduler(a=[])
    spec = SlidingWindowSpec(block_size=10, page_size_bytes=100, sliding_window=90)
    scheduler.kv_cache_config.kv_cache_groups = [group(spec, 1)]
    scheduler.scheduler_config.async_scheduling = asynchronous
    probe = KvProbe(scheduler, lambda *_: None)
    step = SimpleNamespace(scheduled_new_reqs=[], scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set()))
    for tokens in (159, 160):
        scheduler.running[0].num_computed_tokens = tokens
        scheduler.output = SimpleNamespace(num_scheduled_tokens={"a": 1}, **vars(step))
        scheduler.schedule(True)
    assert probe.sample().predicted == held


@pytest.mark.parametrize("among_new", [False, True], ids=["first runner", "second runner"])
def test_what_a_resumed_request_computes_again(among_new):
    """Of 41 tokens the last was not computed, and 16 were still cached."""
    scheduler, told = Scheduler(a=[], b=[]), []
    for name, preemptions in (("a", 1), ("b", 0)):
        scheduler.requests[name].num_preemptions = preemptions
    new = [SimpleNamespace(req_id="b", num_computed_tokens=0)]
    resumed = [SimpleNamespace(req_id="a", num_computed_tokens=16)]
    cached = SimpleNamespace(resumed_req_ids=set(), req_ids=["x"], num_computed_tokens=[5])
    if not among_new:
        cached = SimpleNamespace(resumed_req_ids={"a"}, req_ids=["x", "a"], num_computed_tokens=[5, 16])
    scheduler.output = SimpleNamespace(
        num_scheduled_tokens={"a": 25, "b": 41},
        scheduled_new_reqs=new + (resumed if among_new else []),
        scheduled_cached_reqs=cached,
    )
    KvProbe(scheduler, lambda name, tokens: told.append((name, tokens)))
    assert scheduler.schedule(True) is scheduler.output
    assert told == [("a", 40 - 16)]


def test_every_step_is_predicted_to_the_block(engine, request_of):
    """Prompts of three blocks and a part, the first two of which are the same for two requests each."""
    for n in range(12):
        prompt = (7, 8, 9, 10) * 20 + (4 + n // 2,) * 20
        engine.add(request_of(900 + n, prompt_ids=prompt, max_tokens=30 + 10 * n))
    shared = contexts = 0
    while engine.unfinished:
        engine.step()
        state = engine.state()
        assert state.kv_blocks_used == state.kv_blocks_predicted - state.kv_blocks_shared
        assert engine.free_blocks == state.kv_blocks_total - state.kv_blocks_used
        shared, contexts = max(shared, state.kv_blocks_shared), max(contexts, state.context_tokens)
    assert shared >= 2 * 11
    assert contexts >= 12 * 110
    assert KvCache.from_json(engine.describe()["kv_cache"]).bytes_per_token == 1024


PROGRAM = textwrap.dedent("""
    import json, sys
    from dataclasses import asdict
    from pathlib import Path
    from reasoning.engine.base import EngineSettings, Request
    from reasoning.engine.environment import prepare_environment
    prepare_environment()
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    from reasoning.engine.vllm import VllmEngine
    from reasoning.kv_cache import KvCache
    folder, blocks = Path(sys.argv[1]), int(sys.argv[2])
    config = Gemma3TextConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=4096, sliding_window=96, dtype="float32",
        bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )
    Gemma3ForCausalLM(config).save_pretrained(folder)
    settings = EngineSettings(max_num_seqs=16, kv_cache_gb=0.2, extra={"num_gpu_blocks_override": blocks})
    engine = VllmEngine(str(folder), settings, max_model_len=700, log=folder / "log")
    for n in range(8):
        prompt = tuple(4 + (n // 2 * 31 + i * 7) % 60 for i in range(150))
        engine.add(Request(f"r{n}", prompt, 400, 1.0, 1.0, 1000 + n, ()))
    states, recomputed = [], 0
    while engine.unfinished:
        recomputed += sum(output.timings.recomputed_tokens for output in engine.step() if output.timings)
        states.append(asdict(engine.state()))
    print(json.dumps({"states": states, "recomputed": recomputed, "cache": engine.describe()["kv_cache"]}))
    engine.close()
""")


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [600, 150], ids=["room", "pressure"])
def test_sliding_windows_are_predicted_to_the_block(blocks, tmp_path):
    """Five sliding layers and a full one: six groups, of which five stop at a window of 96 tokens in blocks of 32."""
    environment = os.environ | {"VLLM_LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(blocks)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    cache, states = KvCache.from_json(found["cache"]), found["states"]
    assert sorted(g.window for g in cache.groups) == [0, 96, 96, 96, 96, 96]
    for state in states:
        assert state["kv_blocks_used"] == state["kv_blocks_predicted"] - state["kv_blocks_shared"]
    assert cache.request_blocks(550) == 18 + 5 * 4
    last = states[-1]
    if blocks == 600:
        assert (last["preemptions"], last["recomputed_tokens"]) == (0, 0)
        assert max(state["kv_blocks_used"] for state in states) <= 8 * cache.request_blocks(550)
    else:
        assert last["preemptions"] > 0
        assert 0 < last["recomputed_tokens"] == found["recomputed"]
