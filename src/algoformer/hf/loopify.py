"""Run a block of layers of a pretrained decoder several times, without rewriting its forward pass.

Decoders of `transformers` call their layers in one `for` over a `ModuleList`. `loopify` replaces that list by
one that holds the same layers under the same names and yields the looped block several times. Each run of a
layer has its own index into the KV cache, so the library's stock caches serve the looped model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from algoformer.hf.cache import check_cache
from algoformer.hf.looped_config import set_loop, unrolled

LISTS = ("layers", "h", "blocks")
"""Names under which decoders of `transformers` keep their layers."""


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
    """Loop a block of layers of a `transformers` decoder, in place, and return the model.

    The first `prelude` layers run once, the next `core` layers `steps` times, the last `coda` layers once;
    together they are all of the model's layers. With `steps=1` the model computes exactly what it did before.
    `save_pretrained` writes the original model with the entry `loop` in its configuration: plain
    `transformers` opens that folder as the original model, and `loopify(model, **model.config.loop)` loops
    it again.

    Args:
        model: a decoder of `transformers`, with or without its language-model head.
        prelude: number of layers before the loop.
        core: number of layers in the loop.
        coda: number of layers after the loop.
        steps: number of times that the core runs; `set_steps` changes it later.

    Returns:
        The same model object.

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
    _check_count("steps", steps, least=1)
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
    _check_attention(model, decoders[0][0].config)
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


def _check_attention(model: Any, config: Any) -> None:
    family = type(model).__name__
    if model._is_stateful or "linear_attention" in (getattr(config, "layer_types", None) or ()):
        raise ValueError(
            f"loopify needs attention in every layer; {family} has layers with a recurrent state"
        )
    shared = getattr(config, "num_kv_shared_layers", 0)
    if shared:
        raise ValueError(
            f"loopify needs layers with keys and values of their own; {family} shares them in {shared} layers"
        )


def _numbered(layer: nn.Module) -> list[nn.Module]:
    return [module for module in layer.modules() if isinstance(vars(module).get("layer_idx"), int)]


def _check_split(count: int, prelude: int, core: int, coda: int, steps: int) -> None:
    for name, value, least in (
        ("prelude", prelude, 0),
        ("core", core, 1),
        ("coda", coda, 0),
        ("steps", steps, 1),
    ):
        _check_count(name, value, least=least)
    if prelude + core + coda != count:
        raise ValueError(
            f"prelude + core + coda must be the model's {count} layers, "
            f"got {prelude} + {core} + {coda} = {prelude + core + coda}"
        )


def _check_count(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
