"""Everything that can be known about an evaluation before the engine starts, and refused while it costs nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from reasoning.admission import check_expected, describe, describe_request, expected_cache
from reasoning.budget import Sampling, check_room, thinking_room
from reasoning.budget.drawing import DrawPolicy
from reasoning.budget.policies import FILTER, draws_samples, read_online
from reasoning.calibration import Calibration, calibrate
from reasoning.config import ConfigError
from reasoning.eval_config import EvalConfig
from reasoning.model_files import Model, is_local, model_source, read_model
from reasoning.online import draw_policy
from reasoning.prompts import (
    Closing,
    Ids,
    PromptError,
    Rendered,
    ThinkMarkers,
    closing_from,
    find_markers,
    load_tokenizer,
    render,
    stop_ids,
)
from reasoning.provenance import sha256
from reasoning.tasks import TASKS, TaskSpec, data_hash, load_tasks
from reasoning.types import NO_LIMIT, Task
from verifiers.code import require_sandbox

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DEFAULT_ANSWER_TOKENS = 1024
UNREADABLE = 0.1
"""A larger share of unknown tokens in a prompt is refused."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked evaluation. Settings left open are decided: `config` is what the run folder stores."""

    config: EvalConfig
    model: Model
    tasks: Sequence[Task]
    tokenizer: PreTrainedTokenizerBase
    markers: ThinkMarkers
    closing: Closing
    rendered: Mapping[str, Rendered]  # by task id
    stop_ids: Ids
    sampling: Sampling
    max_answer_tokens: int
    budgets: tuple[int, ...]  # ascending; 0, the baseline, among them unless switched off
    largest_budget: int  # thinking tokens that the model's context has room for beside the longest prompt
    max_model_len: int  # tokens of the longest sequence that the budgets allow
    data_sha256: str
    template_sha256: str
    sandbox: str | None  # the tier that programs run in; None: there are no code tasks
    calibration: Calibration | None
    drawing: DrawPolicy | None = None  # decides which samples of a task are drawn; None: all are

    @property
    def planned(self) -> int:
        """Samples: one a task, repetition and budget, or as many as the policy may draw at most."""
        if self.drawing is not None:
            return sum(self.drawing.most(task.id) for task in self.tasks)
        return len(self.tasks) * self.config.samples * len(self.budgets)

    @property
    def starts_open(self) -> bool:
        return next(iter(self.rendered.values())).starts_open

    @property
    def notes(self) -> list[str]:
        """What the user may not expect of this evaluation."""
        return list(_notes(self))

    @property
    def concurrency_is_set(self) -> bool:
        """Whether the user says how many requests run at once; otherwise the cache and the largest budget decide."""
        return "max_num_seqs" in self.config.engine.model_fields_set

    @property
    def largest_thinking(self) -> int:
        """Thinking tokens of the largest budget; where it is `none`, those that the context has room for."""
        return self.largest_budget if self.budgets[-1] == NO_LIMIT else self.budgets[-1]

    @property
    def kv_line(self) -> str | None:
        """What the model's shape says of the KV cache before anything is loaded; None of a model of unknown shape."""
        cache = expected_cache(self.config.engine, self.model.config)
        if cache is None:
            return None
        words = describe if self.config.engine.kv_cache_gb is not None else describe_request
        dtype = self.config.engine.dtype or "the checkpoint's dtype (without a GPU float32 is used)"
        return f"{words(cache, self.largest_thinking, self.max_model_len)}, in {dtype}"

    @property
    def most_decoded_tokens(self) -> int:
        """Tokens that the run decodes if every trace uses its largest budget and every answer its room."""
        thinking = min(self.budgets[-1], self.largest_budget)
        return len(self.tasks) * self.config.samples * (thinking + len(self.budgets) * self.max_answer_tokens)


def make_plan(config: EvalConfig) -> Plan:
    """Check an evaluation and decide what was left open.

    Raises:
        ConfigError, TaskError, PromptError, BudgetError, SandboxUnavailable: what the user has to correct.
    """
    _stay_offline(config)
    model = read_model(config.model)
    sampling, max_answer_tokens = _sampling(config, model), _answer_room(config, model)
    config = _resolved(config, model, sampling, max_answer_tokens)
    context = model.context_tokens
    # Where cut thinking gets no answer, a baseline without thinking would be one without answers.
    # A policy that draws samples gives each task one result, at the largest budget.
    baseline = config.baseline and config.closing != "none" and not draws_samples(config.policy)
    budgets = tuple(sorted({*config.budgets, 0} if baseline else config.budgets))
    bounded = max((budget for budget in budgets if budget != NO_LIMIT), default=0)
    tasks, sandbox, calibration = _checked_tasks(config)
    tokenizer = load_tokenizer(model.source)
    markers = find_markers(tokenizer)
    closing = closing_from(config.closing)
    closing_ids = closing.ids(tokenizer, markers)
    rendered = {task.id: render(tokenizer, task.prompt, markers) for task in tasks}
    _check_agreement(rendered, model)
    _check_readable(rendered, tokenizer, model)
    _check_extension(config, tokenizer, model)
    _check_policy(config)
    longest = max(rendered.values(), key=lambda prompt: len(prompt.prompt_ids))
    room = thinking_room(context, longest, markers, closing_ids, max_answer_tokens)
    check_room(budgets, room, context)
    max_model_len = context if budgets[-1] == NO_LIMIT else context - room + bounded
    check_expected(config.engine, model.config, max_model_len)
    return Plan(
        config=config,
        model=model,
        tasks=tasks,
        tokenizer=tokenizer,
        markers=markers,
        closing=closing,
        rendered=rendered,
        stop_ids=stop_ids(tokenizer, model.source),
        sampling=sampling,
        max_answer_tokens=max_answer_tokens,
        budgets=budgets,
        largest_budget=room,
        max_model_len=max_model_len,
        data_sha256=data_hash(tasks),
        template_sha256=sha256(str(tokenizer.chat_template)),
        sandbox=sandbox,
        calibration=calibration,
        drawing=draw_policy(config, tasks, budgets),
    )


def _checked_tasks(config: EvalConfig) -> tuple[list[Task], str | None, Calibration | None]:
    """The tasks, what their programs will run in, and what running the reference solutions showed."""
    tasks = load_tasks(task_spec(config))
    sandbox = require_sandbox() if any(task.verifier == "code" for task in tasks) else None
    if not config.data.calibrate:
        return tasks, sandbox, None
    kept, calibration = calibrate(tasks, str(sandbox))
    return kept, sandbox, calibration


def _sampling(config: EvalConfig, model: Model) -> Sampling:
    """What the settings say, else the model's generation_config.json, else plain sampling from all tokens."""
    suggested = dict(model.generation_config)
    if suggested.get("do_sample") is False:
        suggested["temperature"] = 0.0

    def first(given: float | None, name: str, otherwise: float) -> float:
        return next(value for value in (given, suggested.get(name), otherwise) if value is not None)

    chosen = config.sampling
    return Sampling(
        temperature=float(first(chosen.temperature, "temperature", 1.0)),
        top_p=float(first(chosen.top_p, "top_p", 1.0)),
        top_k=max(0, int(first(chosen.top_k, "top_k", 0))),  # some write -1 for off
        min_p=float(first(chosen.min_p, "min_p", 0.0)),
    )


def _check_agreement(rendered: Mapping[str, Rendered], model: Model) -> None:
    opened = [task_id for task_id, prompt in rendered.items() if prompt.starts_open]
    if 0 < len(opened) < len(rendered):
        other = next(task_id for task_id, prompt in rendered.items() if not prompt.starts_open)
        raise PromptError(
            f"the chat template of {model.name} opens the thinking for task {opened[0]} but not for task {other}, "
            "so their thinking would not be counted alike; evaluate them in separate runs"
        )


def _check_readable(rendered: Mapping[str, Rendered], tokenizer: PreTrainedTokenizerBase, model: Model) -> None:
    """Refuse prompts that reach the model as nothing but unknown tokens."""
    for task_id, prompt in rendered.items():
        unknown = prompt.prompt_ids.count(tokenizer.unk_token_id)
        if tokenizer.unk_token_id is not None and unknown > UNREADABLE * len(prompt.prompt_ids):
            raise PromptError(
                f"{unknown} of the {len(prompt.prompt_ids)} prompt tokens of task {task_id} are unknown to the "
                f"tokenizer of {model.name}: it cannot read these tasks; name another --model"
            )


def _check_extension(config: EvalConfig, tokenizer: PreTrainedTokenizerBase, model: Model) -> None:
    text = config.extension.text
    if config.extension.waits and tokenizer.unk_token_id in tokenizer.encode(text, add_special_tokens=False):
        raise PromptError(
            f"the tokenizer of {model.name} does not know '{text}', so it cannot be told to go on; "
            "leave out --extension.waits, or name words that it knows with --extension.text"
        )


def _check_policy(config: EvalConfig) -> None:
    """Refuse a policy that nothing is known of, or that the settings leave without what it looks at."""
    if config.policy is None:
        return
    name, _ = read_online(config.policy)
    if config.closing == "none":
        raise ConfigError(
            f"policy {config.policy} looks at forced answers, and closing none forces none; choose another"
        )
    if name in ("deer", *FILTER) and not config.logprobs:
        raise ConfigError(f"policy {config.policy} needs the log-probabilities of the tokens: add --logprobs true")


def _notes(plan: Plan) -> Iterator[str]:
    if plan.sandbox is not None and plan.sandbox != "full":
        yield f"programs run in a sandbox of tier {plan.sandbox}, not full; docs/sandbox.md says what it lacks"
    if plan.calibration is not None and plan.calibration.left_out:
        count, (first, why) = len(plan.calibration.left_out), next(iter(plan.calibration.left_out.items()))
        yield (
            f"{count:,} of {plan.calibration.checked:,} problems are left out, since their reference solution fails "
            f"here: {first} ({why})" + (" and others" if count > 1 else "")
        )
    if plan.model.unapplied:
        asked = ", ".join(f"{name} {value}" for name, value in plan.model.unapplied.items())
        are = "is" if len(plan.model.unapplied) == 1 else "are"
        yield f"generation_config.json also asks for {asked}, which {are} not applied"
    if plan.sampling.temperature == 0 and plan.config.samples > 1:
        yield f"at temperature 0 the {plan.config.samples:,} samples of a task will hardly differ; set --temperature"


def _answer_room(config: EvalConfig, model: Model) -> int:
    return config.max_answer_tokens or model.harness.get("max_answer_tokens", DEFAULT_ANSWER_TOKENS)


def _resolved(config: EvalConfig, model: Model, sampling: Sampling, max_answer_tokens: int) -> EvalConfig:
    prompt = config.countdown.prompt
    if prompt == "auto":
        prompt = model.harness.get("prompt", "plain")
    return config.model_copy(
        update={
            "model": model.name,
            "max_answer_tokens": max_answer_tokens,
            "sampling": config.sampling.model_copy(update=asdict(sampling)),
            "countdown": config.countdown.model_copy(update={"prompt": prompt}),
        }
    )


def task_spec(config: EvalConfig) -> TaskSpec:
    """The tasks that a resolved configuration asks for."""
    return TaskSpec(
        name=config.tasks,
        split=config.data.split,
        limit=config.limit,
        seed=config.seed,
        path=config.data.path,
        verifier=config.data.verifier,
        levels=config.countdown.levels,
        prompt=config.countdown.prompt,
        revision=config.data.revision,
    )


def _stay_offline(config: EvalConfig) -> None:
    """Keep the libraries away from the hub, unless the user named something that lies there."""
    local_tasks = config.tasks == "countdown" or config.tasks not in TASKS or config.data.path is not None
    if local_tasks and is_local(model_source(config.model)):
        os.environ["HF_HUB_OFFLINE"] = "1"
