"""Wall time of the budget controller against the same requests through plain `llm.generate`.

    python -m benchmarks.controller_overhead --limit 256 --budgets 256,1k --json FILE

The controller samples traces and forks, and returns them as ids and text; every request that it made is then replayed
by vLLM's own offline class: same prompt ids, same number of tokens, all submitted at once, statistics off. It runs as
vLLM runs unless told otherwise, with its core in a process beside (`plain generate`), then with ids as all that it
returns (`ids alone`), and again with the core in the caller's process, which is where the controller has it (`in one
process`). All engines are started first; then one side runs at a time, and repeats after a warm-up. Medians and their
ratios are printed, and how long the controller's side was outside of vLLM's core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasoning.engine.environment import prepare_environment
from reasoning.engine.memory import GIB
from reasoning.engine.vllm import CPU_BLOCK_SIZE
from reasoning.eval_config import load_config
from reasoning.preflight import Plan, make_plan
from reasoning.sampling import controller

PLAIN = {"plain": "plain generate", "ids": "ids alone", "inside": "in one process"}
READY = "ready"
SIDES = ("controller", "plain", "inside")


def wait_for_turn() -> None:
    """Say that the engine is up, and wait until the others are, too, and this side may run."""
    print(READY, flush=True)
    sys.stdin.readline()


def controlled(plan: Plan, repeats: int, out: Path) -> None:
    """Run the controller, and write its times and the requests of its last repeat."""
    from reasoning.engine.base import EngineSettings, Output, Request
    from reasoning.engine.vllm import VllmEngine

    class Logged(VllmEngine):
        """Keeps what was asked, how many tokens came of it, and the seconds inside vLLM's core."""

        requests: dict[str, list[Any]]
        core_s = 0.0

        def add(self, request: Request) -> None:
            self.requests[request.id] = [list(request.prompt_ids), 0, request.seed]
            super().add(request)

        def step(self) -> list[Output]:
            outputs = super().step()
            for output in outputs:
                self.requests[output.request_id][1] += len(output.new_ids)
            return outputs

    engine = Logged(plan.model.source, EngineSettings(**plan.config.engine.model_dump()), plan.max_model_len)
    wait_for_turn()
    get_output = engine._client.get_output

    def timed_output() -> Any:
        started = time.perf_counter()
        batch = get_output()
        engine.core_s += time.perf_counter() - started
        return batch

    engine._client.get_output = timed_output
    seconds, outside = [], []
    for _ in range(repeats + 1):
        engine.requests, engine.core_s = {}, 0.0
        engine._client.reset_prefix_cache()
        started = time.perf_counter()
        _sample(plan, engine)
        seconds.append(time.perf_counter() - started)
        outside.append(seconds[-1] - engine.core_s)
    requests = [row for row in engine.requests.values() if row[1]]
    row = {"seconds": seconds[1:], "outside_core_s": outside[1:], "requests": requests, "engine": engine.describe()}
    out.write_text(json.dumps(row))
    engine.close()


def _sample(plan: Plan, engine: Any) -> None:
    driver = controller(plan, engine)
    for task in plan.tasks:
        driver.submit(task.id, 0, plan.rendered[task.id])
    while driver.unfinished:
        driver.step()


def plain(plan: Plan, repeats: int, side: str, folder: Path) -> None:
    """The same requests through `llm.generate`; with the core in a process of its own also without any text."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if side == "plain" else "0"
    from vllm import LLM
    from vllm.platforms import current_platform

    cpu = current_platform.is_cpu()
    assert plan.config.engine.kv_cache_gb is not None
    llm = LLM(
        plan.model.source,
        dtype="float32" if cpu else "auto",
        enforce_eager=cpu,
        block_size=CPU_BLOCK_SIZE if cpu else None,
        max_num_seqs=plan.config.engine.max_num_seqs,
        max_model_len=plan.max_model_len,
        kv_cache_memory_bytes=int(plan.config.engine.kv_cache_gb * GIB),
        gpu_memory_utilization=plan.config.engine.gpu_memory_utilization,
        enable_prefix_caching=True,
        enable_chunked_prefill=False if cpu else None,  # seeded requests need it off there
        seed=0,
    )
    wait_for_turn()
    requests = json.loads((folder / "controller.json").read_text())["requests"]
    prompts: Any = [{"prompt_token_ids": ids} for ids, _, _ in requests]
    seconds: dict[str, list[float]] = {}
    for name, text in (("plain", True), ("ids", False)) if side == "plain" else (("inside", True),):
        sampling = [_params(plan, tokens, seed, text) for _, tokens, seed in requests]
        seconds[name] = []
        for _ in range(repeats + 1):
            llm.reset_prefix_cache()
            started = time.perf_counter()
            llm.generate(prompts, sampling, use_tqdm=False)
            seconds[name].append(time.perf_counter() - started)
    (folder / f"{side}.json").write_text(json.dumps({name: row[1:] for name, row in seconds.items()}))


def _params(plan: Plan, tokens: int, seed: int, text: bool) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        temperature=plan.sampling.temperature,
        top_p=plan.sampling.top_p,
        top_k=plan.sampling.top_k,
        min_p=plan.sampling.min_p,
        seed=seed,
        max_tokens=tokens,
        ignore_eos=True,
        detokenize=text,
    )


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--budgets", default="64,256,1k")
    options.add_argument("--limit", default="64")
    options.add_argument("--levels", default="4")
    options.add_argument("--concurrency", default="256")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", type=Path)
    options.add_argument("--kv-cache-gb", default="4", help="of each engine")
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args(arguments)
    if given.side is None:
        return _compare(given, arguments)
    prepare_environment()
    overrides = {"budgets": given.budgets, "limit": given.limit, "countdown.levels": given.levels}
    overrides |= {"engine.max_num_seqs": given.concurrency, "engine.kv_cache_gb": given.kv_cache_gb}
    overrides |= {"engine.gpu_memory_utilization": str(0.9 / len(SIDES))}
    plan = make_plan(load_config(None, overrides))
    if given.side == "controller":
        controlled(plan, given.repeats, given.folder / "controller.json")
    else:
        plain(plan, given.repeats, given.side, given.folder)
    return 0


def _run(arguments: Sequence[str], folder: str) -> dict[str, Any]:
    """Start all sides, then let one after the other run; what they found, by name."""
    command = [sys.executable, "-m", "benchmarks.controller_overhead", *arguments, "--folder", folder, "--side"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    sides: dict[str, Any] = {side: subprocess.Popen([*command, side], **pipes) for side in SIDES}
    try:
        for side, process in sides.items():
            while (line := process.stdout.readline()).strip() != READY:
                if not line:
                    raise SystemExit(f"the side {side} ended before its engine was up")
        for side, process in sides.items():
            process.communicate("go\n")
            if process.returncode:
                raise SystemExit(f"the side {side} failed")
    finally:
        for process in sides.values():
            process.kill()
    return {side: json.loads(Path(folder, f"{side}.json").read_text()) for side in SIDES}


def _compare(given: argparse.Namespace, arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = _run(arguments, folder)
    ours = found["controller"]
    seconds = {"controller": ours["seconds"], **found["plain"], **found["inside"]}
    tokens = sum(row[1] for row in ours["requests"])
    medians = {side: statistics.median(row) for side, row in seconds.items()}
    ratios = {side: medians["controller"] / medians[side] for side in PLAIN}
    print(
        f"{ours['engine']['device']}, vLLM {ours['engine']['vllm']}: "
        f"{len(ours['requests'])} requests, {tokens:,} tokens"
    )
    for side, median in medians.items():
        print(
            f"{PLAIN.get(side, side):>15}: median {median:.2f} s, {tokens / median:,.0f} tokens/s, "
            f"of {[round(second, 2) for second in seconds[side]]}"
        )
    print(f"{'outside core':>15}: median {statistics.median(ours['outside_core_s']):.2f} s of the controller's")
    for side, ratio in ratios.items():
        print(f"{'ratio':>15}: {ratio:.3f} to {PLAIN[side]}")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.controller_overhead", *arguments],
            "engine": ours["engine"],
            "requests": len(ours["requests"]),
            "tokens": tokens,
            "outside_core_s": ours["outside_core_s"],
            **{f"{side}_s": row for side, row in seconds.items()},
            "ratio_of_medians": ratios,
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
