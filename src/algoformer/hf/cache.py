"""Stock caches of `transformers` under programs."""

from typing import Any

from torch import Tensor


class CacheEntry:
    """One entry of a cache of `transformers`, as the cache of one layer."""

    def __init__(self, cache: Any, index: int) -> None:
        self.cache, self.index = cache, index

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; return all keys and values to attend to."""
        found: tuple[Tensor, Tensor] = self.cache.update(key, value, self.index)
        return found


def check_cache(cache: Any, slots: int) -> None:
    """Refuse a cache that was filled at another number of steps.

    Raises:
        ValueError: the message names both numbers of layers.
    """
    layers = getattr(cache, "layers", ())
    if len(layers) not in (0, slots) and cache.get_seq_length():
        raise ValueError(
            f"the KV cache was filled by {len(layers)} layers and the model now runs {slots}; "
            "start from an empty cache after a change of steps"
        )
