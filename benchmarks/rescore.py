"""How long does it take to open a large run: to report it, to grade it again, to resume it?

    python -m benchmarks.rescore --generations 100000 --tokens 400

Writes a run of the built-in tasks with that many stored generations of known answers, of which each thinks for as many
tokens on the mean, and times the commands on it, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from reasoning.eval_config import EvalConfig
from reasoning.files import write_json_lines
from reasoning.grading import describe_policy
from reasoning.preflight import make_plan
from reasoning.prompts import ThinkMarkers
from reasoning.records import generation_line, verdict_line
from reasoning.run_folder import RunFolder
from reasoning.run_start import prepare_run
from reasoning.sampling import outstanding
from reasoning.types import FinishReason, Generation, SampleKey, Task
from verifiers import grade

BUDGETS = (250, 1_000, 4_000, 16_000)
TASKS = 500
OPEN, CLOSE = 1, 2
"""Ids of the think markers in the run that is made up."""


def trace(task: Task, sample: int, mean: int, random_: random.Random) -> Iterator[list[Generation]]:
    """The lines of one sample: an answer forced at each budget that its thinking crosses, and its own."""
    length = min(int(random_.expovariate(1 / mean)) + 1, BUDGETS[-1])
    ids = tuple(random_.choices(range(10, 5_000), k=length))
    crossed = [budget for budget in BUDGETS if budget < length]
    rest = [budget for budget in BUDGETS if budget >= length]
    for budgets in [*([budget] for budget in crossed), rest]:
        thought = min(budgets[0], length)
        solved = random_.random() < 0.3 + 0.1 * len(crossed)
        answer = str(task.meta["solution"]) if solved else f"{random_.randrange(50)} + 1"
        text = f"\\boxed{{{answer}}}"
        row = Generation(
            key=SampleKey(task.id, sample, budgets[0]),
            prompt_ids=tuple(range(100, 150)),
            completion_ids=(*ids[:thought], CLOSE, 7, 8, 9, 0),
            thinking=((0, thought),),
            injected=((thought, thought + 1),) if budgets[0] < length else (),
            answer_start=thought + 1,
            text=" ".join(map(str, ids[:thought])),
            answer_text=text,
            finish_reason=FinishReason.ANSWERED,
            bound=budgets[0] < length,
            forced=budgets[0] < length,
            escaped=False,
            looped=False,
            waits=0,
            seed=sample,
            decoded_tokens=5,
            cached_tokens=0,
        )
        yield [row if budget == budgets[0] else _at(row, budget) for budget in budgets]


def _at(row: Generation, budget: int) -> Generation:
    return replace(row, key=replace(row.key, budget=budget))


def write_run(path: Path, generations: int, mean: int) -> None:
    samples = generations // (TASKS * len(BUDGETS))
    config = EvalConfig(budgets=BUDGETS, samples=samples, limit=TASKS, baseline=False, out=str(path))
    plan = make_plan(config)
    tasks = plan.tasks
    folder = RunFolder(path)
    path.mkdir(parents=True)
    manifest = {
        "status": "complete",
        "seconds": 0.0,
        "planned": plan.planned,
        "n_tasks": len(tasks),
        "data_sha256": plan.data_sha256,
        "model_sha256": plan.model.sha256,
        "template_sha256": plan.template_sha256,
        **describe_policy(config.grading.policy),
        "think": asdict(ThinkMarkers((OPEN,), (CLOSE,))) | {"starts_open": True},
        "calibration": None,
        "attempts": [],
    }
    prepare_run(
        folder, plan.config.model_dump(mode="json", exclude={"out"}), manifest, tasks, resume=False, clean=False
    )
    verdicts = []

    def lines() -> Iterator[dict]:
        random_ = random.Random(0)
        for sample in range(samples):
            for task in tasks:
                for shared in trace(task, sample, mean, random_):
                    verdict = grade(task.verifier, shared[0].answer_text, task.reference, task.meta)
                    verdicts.extend(verdict_line(row.key, verdict) for row in shared)
                    yield generation_line(shared)

    with folder.traces.open("w", encoding="utf-8") as file:
        for line in lines():
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    write_json_lines(folder.verdicts, verdicts)


def timed(arguments: Sequence[str]) -> dict[str, float]:
    """What a command takes, with the libraries it loads.

    On a machine that does other work processor time is fairer. Numbers that the command prints last, as JSON, are
    added.
    """
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    last = process.stdout.read().decode().rstrip().rpartition("\n")[2]
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed")
    found = {
        "seconds": time.perf_counter() - started,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
    }
    return {name: round(value, 2) for name, value in (found | (json.loads(last) if last[:1] == "{" else {})).items()}


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--generations", type=int, default=100_000)
    options.add_argument("--tokens", type=int, default=400, help="mean length of the thinking")
    options.add_argument("--json", type=Path)
    options.add_argument("--resume-of", type=Path, help=argparse.SUPPRESS)  # what the timed process runs
    given = options.parse_args(arguments)
    if given.resume_of:
        return _resume(given.resume_of)
    record: dict[str, object] = {"command": ["python", "-m", "benchmarks.rescore", *arguments]}
    with tempfile.TemporaryDirectory() as parent:
        folder = RunFolder(Path(parent, "run"))
        # In a process of its own: the peak of a command counts from the memory of the process that starts it.
        writer = multiprocessing.get_context("spawn").Process(
            target=write_run, args=(folder.path, given.generations, given.tokens)
        )
        writer.start()
        writer.join()
        size = folder.traces.stat().st_size / 1e6
        print(f"{given.generations:,} generations in {size:,.0f} MB of traces", flush=True)
        commands = {
            "report": ["-m", "reasoning.report", str(folder.path)],
            "score": ["-m", "reasoning.score", str(folder.path)],
            "resume": ["-m", "benchmarks.rescore", "--resume-of", str(folder.path)],
        }
        for name, command in commands.items():
            record[name] = found = timed(command)
            print(f"{name:<8} " + ", ".join(f"{what} {value}" for what, value in found.items()), flush=True)
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


def _resume(path: Path) -> int:
    """What a resumed run does before it starts the engine, after its settings are checked."""
    folder = RunFolder(path)
    started = time.process_time()
    plan = make_plan(EvalConfig.model_validate(folder.read_config()))
    planned = time.process_time()
    owed, ungraded = outstanding(plan, folder)
    assert not owed and not ungraded
    print(
        json.dumps(
            {"plan_processor_seconds": planned - started, "open_processor_seconds": time.process_time() - planned}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
