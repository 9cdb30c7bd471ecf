"""Keys of TRL's GRPOConfig: those that this trainer honours, and what to write in the place of every other one.

No setting is accepted and then ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from reasoning.config import ConfigError
from rl import lora

HONOURED = frozenset(
    {
        *("learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "weight_decay"),
        *("optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm"),
        *("max_steps", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"),
        *("steps_per_generation", "generation_batch_size", "num_generations", "num_iterations"),
        *("bf16", "gradient_checkpointing", "disable_dropout"),
        *("loss_type", "importance_sampling_level", "epsilon", "epsilon_high", "delta", "beta"),
        *("use_bias_correction_kl", "scale_rewards", "reward_weights", "mask_truncated_completions"),
        *("vllm_importance_sampling_correction", "vllm_importance_sampling_mode"),
        *("vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min"),
        *("use_vllm", "vllm_mode", "vllm_server_base_url", "vllm_server_host", "vllm_server_port"),
        *("vllm_server_timeout", "vllm_group_port"),
        *("temperature", "top_p", "top_k", "min_p"),
        *("logging_steps", "report_to", "run_name", "save_steps", "save_total_limit"),
    }
)
"""Keys of GRPOConfig that do here what they do in TRL."""

INSTEAD = {
    "output_dir": "write out, the run folder",
    "seed": "write seed at the top level",
    "data_seed": "write seed at the top level",
    "max_completion_length": "write budget (thinking tokens) and max_answer_tokens; together they bound a completion",
    "vllm_tensor_parallel_size": "every process has an engine of its own on its device; leave it out",
    **dict.fromkeys(("fsdp", "fsdp_config"), "start with accelerate launch --use_fsdp --fsdp_version 2"),
    "vllm_gpu_memory_utilization": "write engine.gpu_memory_utilization",
    "vllm_max_model_length": "it follows from the longest prompt, budget and max_answer_tokens",
    "fp16": "bfloat16 with float32 masters is used on a GPU; write bf16: false for float32",
    "eval_strategy": "write held_out.every, in steps",
    "eval_steps": "write held_out.every, in steps",
    "do_eval": "write held_out.every, in steps",
    "log_completions": "every rollout is in rollouts/*.parquet",
    "torch_compile": "write update.compile",
    "resume_from_checkpoint": "use --resume",
    "shuffle_dataset": "tasks are always shuffled, by seed",
    "num_generations_eval": "write held_out.samples",
    "per_device_eval_batch_size": "the engine batches the held-out evaluation by itself",
    "save_strategy": "write save_steps",
    "logging_strategy": "write logging_steps",
    "torch_compile_mode": "write update.compile",
    "model_init_kwargs": "write model; its precision follows from bf16 and the device",
    "use_liger_kernel": "the head is fused and rows are packed without it",
    "use_cpu": "a GPU is used where there is one; hide it with CUDA_VISIBLE_DEVICES=",
    "gradient_checkpointing_kwargs": "write gradient_checkpointing: true, or leave both to the memory estimate",
}
"""What to write for keys of GRPOConfig that have no use here."""

NOT_BUILT = {
    **dict.fromkeys(("deepspeed", "parallelism_config"), "weights are spread over processes with FSDP2 alone"),
    **dict.fromkeys(("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha"), "the reference stays fixed"),
    **dict.fromkeys(("repetition_penalty", "generation_kwargs"), "sampling has temperature, top_p, top_k and min_p"),
    **dict.fromkeys(
        ("off_policy_mask_threshold", "top_entropy_quantile", "entropy_coef", "use_adaptive_entropy"),
        "the packed loss has no such term",
    ),
    "multi_objective_aggregation": "rewards are added up with reward_weights",
    "chat_template_kwargs": "prompts are those of reasoning.eval",
    "cast_lm_head_to_fp32": "the head multiplies in the model's own precision, softmax and loss are float32",
    "router_aux_loss_coef": "a mixture of experts is trained without an auxiliary loss",
}
"""Keys of GRPOConfig that would change what is learnt and are not built, with what holds instead."""


def check_key(key: str, fields: Mapping[str, Any]) -> None:
    """Refuse a key that is not honoured, with what to write instead; `fields` are all that GRPOConfig has.

    Raises:
        ConfigError: the key is unknown, or has no use here.
    """
    if key in HONOURED or key in lora.KEYS:
        return
    if key in lora.INSTEAD:
        raise ConfigError(f"grpo.{key} is not used here: {lora.INSTEAD[key]}; leave it out")
    if key not in fields:
        near = get_close_matches(key, [*HONOURED, *lora.KEYS], n=1)
        raise ConfigError(f"grpo.{key}: unknown key" + (f"; did you mean grpo.{near[0]}?" if near else ""))
    if key in NOT_BUILT:
        raise ConfigError(f"grpo.{key} is not used here: {NOT_BUILT[key]}; leave it out")
    if key.startswith("vllm_") and key not in INSTEAD:
        raise ConfigError(f"grpo.{key} is not used here; the engine's settings are in engine")
    instead = INSTEAD.get(key, "it has no effect in this trainer; leave it out")
    raise ConfigError(f"grpo.{key} is not used here; {instead}")
