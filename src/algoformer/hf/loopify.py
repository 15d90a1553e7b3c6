"""Run a block of layers of a pretrained decoder several times, without rewriting its forward pass.

Decoders of `transformers` call their layers in one `for` over a `ModuleList`. `loopify` replaces that list by
one that holds the same layers under the same names and yields the looped block several times. Each run of a
layer has its own index into the KV cache, so the library's stock caches serve the looped model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from algoformer.common.plain_data import check_count
from algoformer.hf.inputs import check_cache

LISTS = ("layers", "h", "blocks")
"""Names under which decoders of `transformers` keep their layers."""

PER_LAYER = ("layer_types", "mlp_layer_types", "layer_rope_theta", "num_attention_heads_per_layer")
"""Fields of configurations that hold one value for each layer and that masks, caches or checks read."""


class LoopedLayers(nn.ModuleList):
    """A decoder's layers, iterated in the order in which they run.

    The parameters and the state-dict keys are those of the original list. Iteration, indexing and `len`
    see the unrolled order: the prelude, the core `steps` times, the coda.
    """

    def __init__(self, layers: nn.ModuleList, loop: dict[str, int]) -> None:
        super().__init__()
        for name, layer in layers.named_children():
            self.add_module(name, layer)
        self.loop = loop

    def stored(self, index: int) -> nn.Module:
        """Return a layer by its index in the original list."""
        layer = self._modules[str(index)]
        assert layer is not None
        return layer

    def __iter__(self) -> Iterator[Any]:
        order = unrolled(list(range(len(self._modules))), self.loop)
        return (_Visit(self, index, slot) for slot, index in enumerate(order))

    def __len__(self) -> int:
        return len(self._modules) + self.loop["core"] * (self.loop["steps"] - 1)

    def __getitem__(self, key: Any) -> Any:
        return list(self)[key]


class _Visit:
    """One run of a stored layer; `slot` is its index into the KV cache. Attributes are the layer's own."""

    def __init__(self, layers: LoopedLayers, index: int, slot: int) -> None:
        self.layers, self.index, self.slot = layers, index, slot

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layers.stored(self.index), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.slot == 0:
            check_cache(kwargs.get("past_key_values"), len(self.layers))
        layer = self.layers.stored(self.index)
        numbered = _numbered(layer)
        for module in numbered:
            module.layer_idx = self.slot  # type: ignore[assignment]
        try:
            return layer(*args, **kwargs)
        finally:
            for module in numbered:
                module.layer_idx = self.index  # type: ignore[assignment]


def loopify(model: Any, *, prelude: int, core: int, coda: int, steps: int) -> Any:
    """Loop a block of layers of a `transformers` decoder, in place, and return the same model object.

    The first `prelude` layers run once, the next `core` layers `steps` times, the last `coda` layers once;
    together they are all of the model's layers. `set_steps` changes the number of steps later. With `steps=1`
    the model computes exactly what it did before. `save_pretrained` writes the original model with the entry
    `loop` in its configuration: plain `transformers` opens that folder as the original model, and
    `loopify(model, **model.config.loop)` loops it again.

    Args:
        model: a decoder of `transformers`, with or without its language-model head.
        prelude: number of layers before the loop.
        core: number of layers in the loop.
        coda: number of layers after the loop.
        steps: number of times that the core runs.

    Raises:
        ValueError: the model has no list of decoder layers that can be looped, is looped already, or the
            split does not fit its number of layers.
    """
    decoder, name = _find_layers(model)
    layers = getattr(decoder, name)
    _check_split(len(layers), prelude, core, coda, steps)
    loop = {"prelude": prelude, "core": core, "coda": coda, "steps": steps}
    setattr(decoder, name, LoopedLayers(layers, loop))
    set_loop(decoder.config, loop)
    return model


def set_steps(model: Any, steps: int) -> None:
    """Set the number of times that the core of a looped model runs.

    A KV cache that was filled at another number of steps does not fit afterwards and is refused.
    """
    found = [module for module in model.modules() if isinstance(module, LoopedLayers)]
    if not found:
        raise ValueError(f"{type(model).__name__} is not looped; call loopify(model, ...) first")
    check_count("steps", steps)
    found[0].loop = found[0].loop | {"steps": steps}
    decoder = next(module for module in model.modules() if found[0] in module.children())
    set_loop(decoder.config, found[0].loop)


def _find_layers(model: Any) -> tuple[Any, str]:
    family = type(model).__name__
    if not hasattr(model, "get_decoder"):
        raise ValueError(f"loopify needs a model of transformers, got {family}")
    if any(isinstance(module, LoopedLayers) for module in model.modules()):
        raise ValueError(f"{family} is looped already; call set_steps(model, steps) to change its depth")
    if model.config.is_encoder_decoder:
        raise ValueError(f"loopify works on decoders; {family} has an encoder and a decoder")
    found = [
        (module, name) for module in model.modules() for name in LISTS if _has_cached_layers(module, name)
    ]
    # a model of images and text has two stacks, and one of them is its decoder
    decoders = [place for place in found if place[0] is model.get_decoder()] or found
    if len(decoders) != 1:
        raise ValueError(
            f"loopify does not know the family of {family}: it needs one list of layers named "
            f"{', '.join(LISTS[:-1])} or {LISTS[-1]}, each with its own layer_idx, and found {len(decoders)}"
        )
    _check_layers(model, decoders[0][0])
    return decoders[0]


def _has_cached_layers(module: nn.Module, name: str) -> bool:
    layers = getattr(module, name, None)
    return (
        isinstance(layers, nn.ModuleList)
        and hasattr(module, "config")
        and all(
            {numbered.layer_idx for numbered in _numbered(layer)} == {i} for i, layer in enumerate(layers)
        )
    )


def _check_layers(model: Any, decoder: Any) -> None:
    family, config = type(model).__name__, decoder.config
    if model._is_stateful or "linear_attention" in (getattr(config, "layer_types", None) or ()):
        raise ValueError(
            f"loopify needs attention in every layer; {family} has layers with a recurrent state"
        )
    shared = getattr(config, "num_kv_shared_layers", 0)
    if shared:
        raise ValueError(
            f"loopify needs layers with keys and values of their own; {family} shares them in {shared} layers"
        )
    if getattr(config, "hidden_size_per_layer_input", 0) or hasattr(decoder, "first_kv_shared_layer_idx"):
        raise ValueError(
            f"loopify needs layers that run at any index; the decoder of {family} fixes what a layer reads "
            "by its index (hidden_size_per_layer_input, first_kv_shared_layer_idx)"
        )


def _numbered(layer: nn.Module) -> list[nn.Module]:
    return [module for module in layer.modules() if isinstance(vars(module).get("layer_idx"), int)]


def _check_split(count: int, prelude: int, core: int, coda: int, steps: int) -> None:
    check_count("prelude", prelude, 0)
    check_count("coda", coda, 0)
    check_count("core", core)
    check_count("steps", steps)
    if prelude + core + coda != count:
        raise ValueError(
            f"prelude + core + coda must be the model's {count} layers, "
            f"got {prelude} + {core} + {coda} = {prelude + core + coda}"
        )


class LoopedConfig:
    """Fields that a configuration gains when its model is looped; mixed into the configuration's own class.

    `num_hidden_layers` and the fields of one value per layer describe the unrolled model, because masks and
    KV caches are built from them. `to_dict`, and so the file `config.json`, holds the original model's.
    """

    loop: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the original configuration with the entry `loop`."""
        data: dict[str, Any] = super().to_dict()  # type: ignore[misc]
        if "loop" not in vars(self):
            return data  # the class's defaults, which releases before 5.23 compare a configuration with
        data[_count_field(self)] = _stored(self.loop)
        for name in PER_LAYER:
            if data.get(name):
                data[name] = _rolled(list(data[name]), self.loop)
        return data

    def __reduce__(self) -> tuple[Any, ...]:
        # the class is made at run time, so pickle cannot find it by name
        return _restore, (type(self).__bases__[1], dict(vars(self)))


def set_loop(config: Any, loop: dict[str, int]) -> None:
    """Turn a configuration, in place, into that of its model with a loop, or change its loop."""
    looped = isinstance(config, LoopedConfig)
    values = {name: list(getattr(config, name)) for name in PER_LAYER if getattr(config, name, None)}
    if looped:
        values = {name: _rolled(value, config.loop) for name, value in values.items()}
    else:
        config.__class__ = _looped_class(type(config))
    for name, value in values.items():
        setattr(config, name, unrolled(value, loop))
    setattr(config, _count_field(config), _stored(loop) + loop["core"] * (loop["steps"] - 1))
    config.loop = loop


def unrolled(values: list[Any], loop: dict[str, int]) -> list[Any]:
    """Return one value for each layer that runs, from one for each layer that is stored."""
    start, end = loop["prelude"], loop["prelude"] + loop["core"]
    return values[:start] + values[start:end] * loop["steps"] + values[end:]


def _stored(loop: dict[str, int]) -> int:
    return loop["prelude"] + loop["core"] + loop["coda"]


def _count_field(config: Any) -> str:
    # GPT-2 and its relatives call it n_layer
    return config.attribute_map.get("num_hidden_layers", "num_hidden_layers")


def _rolled(values: list[Any], loop: dict[str, int]) -> list[Any]:
    end = loop["prelude"] + loop["core"]
    return values[:end] + values[len(values) - loop["coda"] :]


def _looped_class(base: type) -> type:
    return type(base.__name__, (LoopedConfig, base), {"__module__": base.__module__, "__doc__": base.__doc__})


def _restore(base: type, state: dict[str, Any]) -> Any:
    config: Any = object.__new__(_looped_class(base))
    vars(config).update(state)
    return config
