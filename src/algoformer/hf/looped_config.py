"""The configuration of a looped model: unrolled while the model runs, original when it is written."""

from __future__ import annotations

from typing import Any

PER_LAYER = ("layer_types", "mlp_layer_types", "layer_rope_theta", "num_attention_heads_per_layer")
"""Fields of configurations that hold one value for each layer and that masks, caches or checks read."""


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
