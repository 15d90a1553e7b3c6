"""Keys and values of past tokens, for every place in a program where a layer runs.

A looped layer runs many times on a token, each time with other keys and values: one entry for each layer
would be wrong. Here every occurrence (loop, iteration, layer) of the program that is run has a slot of
its own, found by its address. Under the policy `last` the iterations of a loop share one slot, which the
next iteration overwrites: what stays for later tokens are the keys and values of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.model.address import layer_addresses
from algoformer.model.layers import check_count
from algoformer.model.program import Layers, Program, default_steps

Policy = Literal["full", "last"]
"""The cached iterations of a loop: all (exact), or only the last one, which all iterations then read."""


def slot_name(address: str, policy: Policy) -> str:
    """Return the slot that the layer at `address` reads and writes.

    >>> slot_name("loop[3]/inner[2]/0", "full"), slot_name("loop[3]/inner[2]/0", "last")
    ('loop[3]/inner[2]/0', 'loop/inner/0')
    """
    return address if policy == "full" else re.sub(r"\[\d+\]", "", address)


def slots_of(program: Program, *, steps: int | None = None, policy: Policy = "full") -> dict[str, Layers]:
    """Return every slot of a program whose traced loop runs `steps` times, with the module it belongs to."""
    if policy not in get_args(Policy):
        raise ValueError(f"policy must be one of {', '.join(get_args(Policy))}, got {policy!r}")
    steps = default_steps(program) if steps is None else steps
    return {slot_name(address, policy): layers for address, layers in layer_addresses(program, steps)}


def cache_bytes(
    program: Program,
    *,
    width: int,
    batch: int,
    length: int,
    steps: int | None = None,
    policy: Policy = "full",
    number_bytes: int = 4,
) -> int:
    """Return the bytes of keys and values for `batch` sequences of up to `length` tokens, without allocating.

    >>> from algoformer.model.presets import algoformer
    >>> for policy in ("full", "last"):  # 2 · batch · length · width · 4 bytes, for 12 slots and for 3
    ...     print(cache_bytes(algoformer(steps=10), width=256, batch=32, length=100, policy=policy))
    78643200
    19660800
    """
    numbers = sum(
        2 * batch * length * layers.key_heads * layers.width_of_head(width)
        for layers in slots_of(program, steps=steps, policy=policy).values()
    )
    return numbers * number_bytes


class Slot:
    """The keys and values of one slot: the `KVCache` of the layers that run there."""

    def __init__(self, cache: KeyValueCache, heads: int, width: int) -> None:
        self.cache = cache
        shape = (cache.batch, heads, cache.length, width)
        # zeros: what was not written yet is masked, but nothing times not-a-number is not a number
        self.keys = torch.zeros(shape, device=cache.device, dtype=cache.dtype)
        self.values = torch.zeros(shape, device=cache.device, dtype=cache.dtype)

    def update(
        self,
        key: Float[Tensor, "batch head token score"],
        value: Float[Tensor, "batch head token score"],
    ) -> tuple[Float[Tensor, "batch head key score"], Float[Tensor, "batch head key score"]]:
        """Write new keys and values to the cache's current places; return all keys and values."""
        for kept, new in ((self.keys, key), (self.values, value)):
            self._write(kept, new.to(kept.dtype))
        # a prefix is all there is: it attends to itself, and not to empty places behind it
        return (key, value) if self.cache.at_start else (self.keys, self.values)

    def _write(self, kept: Tensor, new: Tensor) -> None:
        held = self.cache.held
        if held is not None:
            new = torch.where(held[:, None, None, None], kept.index_select(2, self.cache.places), new)
        kept.index_copy_(2, self.cache.places, new)

    def take(self, other: Slot) -> None:
        """Take over what another slot holds at the cache's current places."""
        if other is not self:
            for kept, source in ((self.keys, other.keys), (self.values, other.values)):
                kept.index_copy_(2, self.cache.places, source.index_select(2, self.cache.places))

    def select(self, rows: Int[Tensor, " row"], *, first: int = 0) -> None:
        """Give each sequence the past of another, from place `first` on; in place if their number stays."""
        if len(rows) != len(self.keys):
            self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
            return
        for kept in (self.keys, self.values):
            past = kept[:, :, first : self.cache.filled]
            past.copy_(past.index_select(0, rows))


class KeyValueCache:
    """Preallocated slots for a batch of sequences, and which places of them are filled with real tokens.

    All tensors keep shape and address while tokens are added one by one, and nothing waits for the device.

    Args:
        program: the program of the model.
        width: the width of its residual stream.
        batch: the number of sequences.
        length: the maximum number of tokens of a sequence, padding included.
        steps: iterations of the traced loop; None means as many as the program says.
        policy: the cached iterations of a loop, "full" or "last".
        device: the device of the cache.
        dtype: the data type of keys and values.
    """

    def __init__(
        self,
        program: Program,
        *,
        width: int,
        batch: int,
        length: int,
        steps: int | None = None,
        policy: Policy = "full",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        for name, size in {"batch": batch, "length": length, "steps": 1 if steps is None else steps}.items():
            check_count(name, size, 1)
        self.batch, self.length, self.policy = batch, length, policy
        self.steps = default_steps(program) if steps is None else steps
        self.device, self.dtype = torch.device(device), dtype
        self.prefix = self.filled = 0
        self.held: Bool[Tensor, " batch"] | None = None
        self.visible = torch.zeros(batch, length, dtype=torch.bool, device=self.device)
        self.positions = torch.zeros(batch, 1, dtype=torch.int64, device=self.device)
        self.next = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.slots = {
            name: Slot(self, layers.key_heads, layers.width_of_head(width))
            for name, layers in slots_of(program, steps=self.steps, policy=policy).items()
        }

    @property
    def at_start(self) -> bool:
        """True while a prefix is being read, and before."""
        return self.filled == 0

    @property
    def places(self) -> Int[Tensor, " token"]:
        """The places that keys and values are written to: all of a prefix, or that of the latest token."""
        return torch.arange(self.prefix, device=self.device) if self.at_start else self.next

    @property
    def bytes(self) -> int:
        """The bytes of the keys and values."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._tensors())

    def slot(self, address: str) -> Slot:
        """Return the slot of the layer at an address."""
        return self.slots[slot_name(address, self.policy)]

    def begin(self, attention_mask: Bool[Tensor, "batch token"]) -> None:
        """Reserve the first places for a prefix, before it is read."""
        if not self.at_start:
            raise ValueError("this cache is in use; clear() it before another prefix")
        if attention_mask.shape[0] != self.batch or attention_mask.shape[1] > self.length:
            raise ValueError(
                f"a prefix of {attention_mask.shape[0]} × {attention_mask.shape[1]} tokens does not fit in a "
                f"cache of batch={self.batch}, length={self.length}"
            )
        self.prefix = attention_mask.shape[1]
        self.visible[:, : self.prefix] = attention_mask
        self.positions.copy_(attention_mask.sum(dim=1, keepdim=True) - 1)

    def prefix_done(self) -> None:
        """Move behind the prefix, after it was read."""
        self.filled = self.prefix
        self.next.fill_(self.prefix - 1)

    def reserve(self) -> None:
        """Count a token before it is read, if there is room for it."""
        if self.filled >= self.length:
            raise ValueError(f"this cache holds length={self.length} tokens and is full")
        self.filled += 1

    def advance(self) -> None:
        """Move on to the place of the token that was reserved; it can be seen from now on."""
        self.next += 1
        self.positions += 1
        self.visible.index_fill_(1, self.next, True)

    def clear(self) -> None:
        """Clear the cache, and keep its memory for another prefix."""
        self.prefix = self.filled = 0
        self.held = None
        self.visible.zero_()

    def carry(self, loop: str, iteration: int) -> None:
        """Let an iteration of the loop at an address have the keys and values of the one before it.

        Only at the current places: for tokens whose loop ended before that iteration.
        """
        now, before = f"{loop}[{iteration}]", f"{loop}[{iteration - 1}]"
        for address in [name for name in self.slots if name.startswith(now)]:
            self.slots[address].take(self.slots[before + address.removeprefix(now)])

    def select(self, rows: Int[Tensor, " row"], *, same_prefix: bool = False) -> None:
        """Give each sequence the past of another: `rows[i]` becomes i. There may be more or fewer of them.

        `same_prefix` promises that no sequence changes its prefix, so that only what came after it moves.
        """
        for slot in self.slots.values():
            slot.select(rows, first=self.prefix if same_prefix else 0)
        visible, positions = self.visible.index_select(0, rows), self.positions.index_select(0, rows)
        if len(rows) == self.batch:
            self.visible.copy_(visible)
            self.positions.copy_(positions)
        else:
            self.batch, self.visible, self.positions = len(rows), visible, positions

    def _tensors(self) -> Iterator[Tensor]:
        for slot in self.slots.values():
            yield slot.keys
            yield slot.values
