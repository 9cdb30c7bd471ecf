"""Wall time of the budget controller against the same requests through plain `llm.generate`.

    python -m benchmarks.controller_overhead --limit 256 --budgets 64,256,1k,4k --json FILE

The controller samples traces and forks; every request that it made is then replayed by vLLM's own offline class: same
prompt ids, same number of tokens, all submitted at once, statistics off. Each side is a process of its own (one engine
a process) and repeats after a warm-up; medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasoning.config import load_config
from reasoning.engine.environment import prepare_environment
from reasoning.preflight import Plan, make_plan
from reasoning.sampling import controller


def controlled(plan: Plan, repeats: int, out: Path) -> None:
    """Run the controller, and write its times and the requests of its last repeat."""
    from reasoning.engine.base import EngineSettings, Output, Request
    from reasoning.engine.vllm import VllmEngine

    class Logged(VllmEngine):
        """Keeps what was asked and how many tokens came of it."""

        requests: dict[str, list[Any]]

        def add(self, request: Request) -> None:
            self.requests[request.id] = [list(request.prompt_ids), 0, request.seed]
            super().add(request)

        def step(self) -> list[Output]:
            outputs = super().step()
            for output in outputs:
                self.requests[output.request_id][1] += len(output.new_ids)
            return outputs

    engine = Logged(plan.model.source, EngineSettings(**plan.config.engine.model_dump()), plan.max_model_len)
    seconds = []
    for _ in range(repeats + 1):
        engine.requests = {}
        engine._client.reset_prefix_cache()
        started = time.perf_counter()
        _sample(plan, engine)
        seconds.append(time.perf_counter() - started)
    requests = [row for row in engine.requests.values() if row[1]]
    out.write_text(json.dumps({"seconds": seconds[1:], "requests": requests, "engine": engine.describe()}))
    engine.close()


def _sample(plan: Plan, engine: Any) -> None:
    driver = controller(plan, engine)
    for task in plan.tasks:
        driver.submit(task.id, 0, plan.rendered[task.id])
    while driver.unfinished:
        driver.step()


def plain(plan: Plan, repeats: int, out: Path, log: dict[str, Any]) -> None:
    """The same requests through `llm.generate`."""
    from vllm import LLM, SamplingParams

    engine = log["engine"]
    llm = LLM(
        plan.model.source,
        dtype=engine["dtype"],
        enforce_eager=engine["enforce_eager"],
        block_size=engine["block_size"],
        max_num_seqs=engine["max_num_seqs"],
        max_model_len=plan.max_model_len,
        kv_cache_memory_bytes=engine["kv_bytes"],
        enable_prefix_caching=True,
        enable_chunked_prefill=None if engine["device"] != "cpu" else False,  # seeded requests need it off there
        skip_tokenizer_init=True,
        seed=0,
    )
    prompts: Any = [{"prompt_token_ids": ids} for ids, _, _ in log["requests"]]
    sampling = [
        SamplingParams(
            temperature=plan.sampling.temperature,
            top_p=plan.sampling.top_p,
            top_k=plan.sampling.top_k,
            min_p=plan.sampling.min_p,
            seed=seed,
            max_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
        )
        for _, tokens, seed in log["requests"]
    ]
    seconds = []
    for _ in range(repeats + 1):
        llm.reset_prefix_cache()
        started = time.perf_counter()
        llm.generate(prompts, sampling, use_tqdm=False)
        seconds.append(time.perf_counter() - started)
    out.write_text(json.dumps({"seconds": seconds[1:]}))


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--budgets", default="64,256,1k")
    options.add_argument("--limit", default="64")
    options.add_argument("--levels", default="4")
    options.add_argument("--concurrency", default="256")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", type=Path)
    options.add_argument("--side", choices=("controller", "plain"), help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args(arguments)
    if given.side is None:
        return _compare(given, arguments)
    prepare_environment()
    overrides = {"budgets": given.budgets, "limit": given.limit, "countdown.levels": given.levels}
    plan = make_plan(load_config(None, overrides | {"engine.max_num_seqs": given.concurrency}))
    if given.side == "controller":
        controlled(plan, given.repeats, given.folder / "controller.json")
    else:
        log = json.loads((given.folder / "controller.json").read_text())
        plain(plan, given.repeats, given.folder / "plain.json", log)
    return 0


def _compare(given: argparse.Namespace, arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        for side in ("controller", "plain"):
            command = [
                sys.executable,
                "-m",
                "benchmarks.controller_overhead",
                *arguments,
                "--side",
                side,
                "--folder",
                folder,
            ]
            subprocess.run(command, check=True)
        ours = json.loads(Path(folder, "controller.json").read_text())
        theirs = json.loads(Path(folder, "plain.json").read_text())
    tokens = sum(row[1] for row in ours["requests"])
    medians = statistics.median(ours["seconds"]), statistics.median(theirs["seconds"])
    print(
        f"{ours['engine']['device']}, vLLM {ours['engine']['vllm']}: "
        f"{len(ours['requests'])} requests, {tokens:,} tokens"
    )
    for name, row, median in (("controller", ours, medians[0]), ("plain generate", theirs, medians[1])):
        print(
            f"{name:>15}: median {median:.2f} s, {tokens / median:,.0f} tokens/s, "
            f"of {[round(second, 2) for second in row['seconds']]}"
        )
    print(f"{'ratio':>15}: {medians[0] / medians[1]:.3f}")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.controller_overhead", *arguments],
            "engine": ours["engine"],
            "requests": len(ours["requests"]),
            "tokens": tokens,
            "controller_s": ours["seconds"],
            "plain_s": theirs["seconds"],
            "ratio_of_medians": medians[0] / medians[1],
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
