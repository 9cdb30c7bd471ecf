"""Low-rank adapters through peft: the base stays as it is, two thin matrices beside each chosen one are trained.

The keys are those of TRL's ModelConfig. The engine, and any other program, gets the base with the adapter added to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from trl import ModelConfig

from reasoning.config import ConfigError
from rl.sharding import is_sharded, load_sharded, whole

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel

KEYS = ("use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora", "use_dora")
"""Keys of ModelConfig that do here what they do in TRL."""

INSTEAD = {
    "lora_modules_to_save": "adapters alone are trained",
    "lora_target_parameters": "adapters are put beside linear modules; name them in lora_target_modules",
    "lora_task_type": "it is always CAUSAL_LM",
    **dict.fromkeys(("load_in_8bit", "load_in_4bit"), "the base is not quantised"),
    **dict.fromkeys(("bnb_4bit_quant_type", "bnb_4bit_quant_storage", "use_bnb_nested_quant"), "it is not quantised"),
}
"""Why other keys of ModelConfig that come with adapters are refused."""

ADAPTER = "default"
"""peft's name of the adapter that is trained."""


def lora_fields() -> dict[str, Any]:
    """The fields of ModelConfig that `KEYS` names."""
    return {field.name: field for field in dataclasses.fields(ModelConfig) if field.name in KEYS}


def lora_config(settings: Mapping[str, Any]) -> LoraConfig | None:
    """The adapter that the `grpo:` section asks for, its values of the right types; None: all weights are trained.

    Raises:
        ConfigError: peft is missing, a value cannot be used, or keys of an adapter are there without `use_peft`.
    """
    given = {key: settings[key] for key in KEYS if key in settings}
    if not given.pop("use_peft", False):
        if given:
            raise ConfigError(f"grpo.{next(iter(given))} has no effect without grpo.use_peft: true")
        return None
    if find_spec("peft") is None:
        raise ConfigError("grpo.use_peft: peft is not installed; pip install peft, or leave use_peft out")
    from peft import LoraConfig

    chosen = {key: given.get(key, field.default) for key, field in lora_fields().items()}
    if chosen["lora_r"] < 1 or chosen["lora_alpha"] <= 0 or not 0 <= chosen["lora_dropout"] < 1:
        raise ConfigError(
            f"grpo: lora_r is {chosen['lora_r']}, lora_alpha {chosen['lora_alpha']} and lora_dropout "
            f"{chosen['lora_dropout']}; they have to be at least 1, above 0, and in [0, 1)"
        )
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=chosen["lora_r"],
        lora_alpha=chosen["lora_alpha"],
        lora_dropout=chosen["lora_dropout"],
        target_modules=chosen["lora_target_modules"],
        use_rslora=chosen["use_rslora"],
        use_dora=chosen["use_dora"],
    )


def adapt(model: Any, config: LoraConfig) -> PeftModel:
    """The model with an adapter in its own dtype: what is added to it is kept in float32 masters, as of all weights.

    Raises:
        ConfigError: it names modules that are not there, or the head or the embedding, which the update reads itself.
    """
    from peft import get_peft_model
    from peft.tuners.tuners_utils import BaseTunerLayer

    try:
        adapted = get_peft_model(model, config, autocast_adapter_dtype=False)
    except ValueError as error:
        raise ConfigError(f"grpo.lora_target_modules: {error}") from None
    for what, module in (("head", model.get_output_embeddings()), ("embedding", model.get_input_embeddings())):
        if isinstance(module, BaseTunerLayer):
            raise ConfigError(f"grpo.lora_target_modules names the {what} of the model, which gets no adapter here")
    return adapted


def drop_reference(model: Any) -> None:
    """Remove the frozen copy of the adapter that TRL adds as a reference: the base itself is the reference."""
    if is_adapted(model) and "ref" in model.peft_config:
        model.delete_adapter("ref")
        model.set_adapter(ADAPTER)


def is_adapted(model: Any) -> bool:
    """Whether the model is a base with an adapter."""
    return hasattr(model, "peft_config")


def network(model: Any) -> Any:
    """The causal language model itself, adapters in it."""
    return model.get_base_model() if is_adapted(model) else model


def adapter_off(model: Any) -> AbstractContextManager[None]:
    """Within it the model is its base."""
    return model.disable_adapter() if is_adapted(model) else nullcontext()


def whole_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Every weight under its name in a checkpoint: adapters added in, shards put together.

    One at a time; the model's own stay as they are. Of a sharded model all processes have to ask.
    """
    layers = _adapted_layers(model)
    for name, weight in network(model).named_parameters():
        owner, _, kind = name.rpartition(".base_layer.")
        if owner in layers and kind == "weight":
            yield f"{owner}.weight", _merged(layers[owner])
        elif owner in layers:
            yield f"{owner}.{kind}", weight.detach()
        elif not any(name.startswith(f"{layer}.") for layer in layers):
            yield name, whole(weight.detach())


def load_trained(model: Any, folder: Path) -> None:
    """Put back what `save_pretrained` wrote, of an adapted model the adapter, bit by bit."""
    if is_adapted(model):
        from peft import set_peft_model_state_dict
        from peft.utils import load_peft_weights

        set_peft_model_state_dict(model, load_peft_weights(str(folder), device="cpu"))
        return
    stored = type(model).from_pretrained(folder, dtype=model.dtype)
    if is_sharded(model):
        load_sharded(model, dict(stored.named_parameters()))
    else:
        model.load_state_dict(stored.state_dict())


def _adapted_layers(model: Any) -> dict[str, Any]:
    if not is_adapted(model):
        return {}
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {name: module for name, module in network(model).named_modules() if isinstance(module, BaseTunerLayer)}


@torch.no_grad()
def _merged(layer: Any) -> Tensor:
    """The base weight with the adapter added. peft adds in place, and taking away again would leave rounding behind."""
    base = layer.get_base_layer()
    kept = base.weight.data
    base.weight.data = kept.clone()
    try:
        layer.merge(adapter_names=[ADAPTER])
        merged = base.weight.data.clone()
        layer.unmerge()
        return merged
    finally:
        base.weight.data = kept
