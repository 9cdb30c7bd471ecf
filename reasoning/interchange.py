"""Completions of other tools become an ordinary run folder: graded and reported like any run, without a budget.

A line is read by its fields: lm-eval's samples (`doc_id`, `resps`), samples of an inspect log (`output`), or plain
`id` and `completion`. Ids that come again are further samples of a task. Tokens are unknown: nobody counted them here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from reasoning.eval_config import EvalConfig
from reasoning.files import write_json_lines
from reasoning.grading import describe_policy
from reasoning.records import generation_line
from reasoning.run_folder import RunFolder, RunFolderError
from reasoning.run_start import prepare_run
from reasoning.tasks import TaskError, TaskSpec, data_hash, load_tasks
from reasoning.tasks.records import read_records
from reasoning.types import NO_LIMIT, FinishReason, Generation, SampleKey, Task
from verifiers.extract import after_thinking

_WANTED = "plain {id, completion}, lm-eval samples {doc_id, resps} or inspect samples {id, output}"


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer to one task. `task` is an id, or the place of a task in its set; `error`: there is no answer."""

    place: str  # such as `samples.jsonl, line 3`
    task: str | int
    text: str
    problem: str | None = None  # as the file has it, to see that the tasks are the same
    error: str | None = None
    filter: str | None = None  # lm-eval writes a line for each of its filters


def import_file(path: Path, tasks_name: str, policy: str, make: Callable[[], RunFolder]) -> RunFolder:
    """Read completions and write the traces of a run; `make` makes its folder once everything is read.

    Tasks that no line answers are left out. Raises:
        TaskError: a line cannot be read or belongs to no task; the message names it.
        RunFolderError: the folder holds a run.
    """
    form, completions = read_completions(path)
    tasks = load_tasks(TaskSpec(tasks_name))
    generations = list(_generations(completions, tasks, tasks_name))
    answered = {generation.key.task_id for generation in generations}
    kept = [task for task in tasks if task.id in answered]
    samples = 1 + max(generation.key.sample for generation in generations)
    given = {"budgets": "none", "model": path.stem, "tasks": tasks_name, "samples": samples, "baseline": False}
    config = EvalConfig.model_validate(given | {"grading": {"policy": policy}})
    source = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "form": form,
        "tasks_left_out": len(tasks) - len(kept),
    }
    manifest = _manifest(kept, samples, policy) | {"imported": source}
    folder = make()
    with folder.lock():
        if folder.is_run and folder.finished_keys():
            raise RunFolderError(f"{folder.path} already holds a run. Choose another --out.")
        settings = config.model_dump(mode="json", exclude={"out"})
        prepare_run(folder, settings, manifest, kept, resume=False, clean=False)
        write_json_lines(folder.traces, (generation_line([generation]) for generation in generations))
    return folder


def _manifest(tasks: Sequence[Task], samples: int, policy: str) -> dict[str, Any]:
    """As that of a run, of which nothing is known that an engine or a tokenizer would tell."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "status": "complete",
        "started": now,
        "ended": now,
        "seconds": 0.0,
        "planned": samples * len(tasks),
        "n_tasks": len(tasks),
        "data_sha256": data_hash(tasks),
        "model_sha256": None,
        "template_sha256": None,
        **describe_policy(policy),
        "think": {"open_ids": [], "close_ids": [], "starts_open": False},
        "max_model_len": None,
        "calibration": None,
        "attempts": [],
    }


def read_completions(path: Path) -> tuple[str, list[Completion]]:
    """The name of the form and all completions of a file.

    Raises:
        TaskError: a line is of no known form, of another one than the first, or has no text.
    """
    form, found = "", []
    for place, record in read_records(path):
        own = _form(place, record)
        if form and own != form:
            raise TaskError(f"{place}: looks like {own}, but the lines before it like {form}; give one file for each")
        form = own
        found += _FORMS[own](place, record)
    if not found:
        raise TaskError(f"{path}: has no completions; its lines should be {_WANTED}")
    return form, list(_one_filter(found))


def _form(place: str, record: Mapping[str, Any]) -> str:
    if "doc_id" in record and "resps" in record:
        return "lm-eval"
    if "id" in record and "output" in record:
        return "inspect"
    if "id" in record and "completion" in record:
        return "plain"
    raise TaskError(
        f"{place}: the fields {', '.join(map(str, record)) or '(none)'} are of no known form; write {_WANTED}"
    )


def _plain(place: str, record: Mapping[str, Any]) -> Iterator[Completion]:
    yield Completion(place, _id(place, record["id"]), _text(place, "completion", record["completion"]))


def _lm_eval(place: str, record: Mapping[str, Any]) -> Iterator[Completion]:
    """`resps` has a list for every request of a document; one that generates has one, with its repeats in it."""
    if isinstance(record["doc_id"], bool) or not isinstance(record["doc_id"], int):
        raise TaskError(f"{place}: doc_id {record['doc_id']!r} is not a whole number")
    requests = record["resps"]
    if not (isinstance(requests, list) and len(requests) == 1 and isinstance(requests[0], list)):
        raise TaskError(f"{place}: resps is not one list of generated texts; only tasks that generate can be graded")
    doc = record.get("doc")
    fields = doc if isinstance(doc, Mapping) else {}
    found = (fields.get(name) for name in ("problem", "question", "Problem"))
    problem = next((text for text in found if isinstance(text, str)), None)
    for text in requests[0]:
        text = _text(place, "resps", text)
        yield Completion(place, record["doc_id"], text, problem, filter=record.get("filter"))


def _inspect(place: str, record: Mapping[str, Any]) -> Iterator[Completion]:
    output, task = record["output"], _id(place, record["id"])
    if record.get("error"):
        error = record["error"]
        yield Completion(place, task, "", error=str(error.get("message", error) if isinstance(error, dict) else error))
        return
    if isinstance(output, Mapping):
        output = output.get("completion") or _first_choice(place, output)
    yield Completion(place, task, _text(place, "output", output))


def _first_choice(place: str, output: Mapping[str, Any]) -> Any:
    """The message of the first choice: text, or parts of which those of type `text` are the answer."""
    match output.get("choices"):
        case None | []:
            return output.get("completion")
        case [{"message": {"content": str(text)}}, *_]:
            return text
        case [{"message": {"content": [*parts]}}, *_] if all(isinstance(part, Mapping) for part in parts):
            return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
    raise TaskError(f"{place}: output has no completion, and no text at choices[0].message.content")


_FORMS = {"plain": _plain, "lm-eval": _lm_eval, "inspect": _inspect}


def _id(place: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise TaskError(f"{place}: the id {value!r} is neither text nor a whole number")
    return str(value)


def _text(place: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TaskError(f"{place}: the field '{field}' holds no text but {type(value).__name__}: {str(value)[:60]}")
    return value.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written


def _one_filter(found: Sequence[Completion]) -> Iterator[Completion]:
    """Of lines that differ in lm-eval's filter alone, those of the first: the completions are the same."""
    first: dict[str | int, str | None] = {}
    for completion in found:
        if first.setdefault(completion.task, completion.filter) == completion.filter:
            yield completion


def _generations(completions: Sequence[Completion], tasks: Sequence[Task], name: str) -> Iterator[Generation]:
    by_id = {task.id: task for task in tasks}
    drawn: Counter[str] = Counter()
    for completion in completions:
        task = _task(completion, tasks, by_id, name)
        yield _generation(completion, task, drawn[task.id])
        drawn[task.id] += 1


def _task(completion: Completion, tasks: Sequence[Task], by_id: Mapping[str, Task], name: str) -> Task:
    place, wanted = completion.place, completion.task
    if isinstance(wanted, str):
        if wanted in by_id:
            return by_id[wanted]
        near = get_close_matches(wanted, by_id, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"its ids are like '{tasks[0].id}'"
        raise TaskError(f"{place}: {name} has no task '{wanted}'; {hint}")
    if not 0 <= wanted < len(tasks):
        raise TaskError(f"{place}: doc_id {wanted} is beyond the {len(tasks):,} tasks of {name}")
    task = tasks[wanted]
    asked = "".join(str(message["content"]) for message in task.prompt)
    if completion.problem is not None and " ".join(completion.problem.split()) not in " ".join(asked.split()):
        raise TaskError(
            f"{place}: the problem of doc_id {wanted} is not that of task '{task.id}', number {wanted} of {name}; "
            "--tasks has to list the problems in the order that the other tool read them in"
        )
    return task


def _generation(completion: Completion, task: Task, sample: int) -> Generation:
    answer = after_thinking(completion.text)
    reason = FinishReason.ANSWERED if answer is not None else FinishReason.UNCLOSED
    return Generation(
        key=SampleKey(task.id, sample, NO_LIMIT),
        prompt_ids=(),
        completion_ids=(),
        thinking=(),
        injected=(),
        answer_start=0,
        text=completion.text,
        answer_text=answer or "",
        finish_reason=reason if completion.error is None else FinishReason.ERROR,
        bound=False,
        forced=False,
        escaped=False,
        looped=False,
        waits=0,
        seed=0,
        decoded_tokens=0,
        cached_tokens=0,
        error=completion.error,
    )
