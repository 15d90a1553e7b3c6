"""Keys and values of past tokens, for every place in a program where a layer runs.

A looped layer runs many times on a token, each time with other keys and values: one entry for each layer
would be wrong. Here every occurrence (loop, iteration, layer) of the program that is run has a slot of
its own, found by its address. Under the policy `last` the iterations of a loop share one slot, which the
next iteration overwrites: what stays for later tokens are the keys and values of the last one.
"""

from __future__ import annotations

import re
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algoformer.common.plain_data import check_count, read_value
from algoformer.model.address import layer_addresses
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
    read_value("policy", Policy, policy)
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
    slots = slots_of(program, steps=steps, policy=policy).values()
    numbers = sum(2 * layers.key_heads * layers.width_of_head(width) for layers in slots)
    return batch * length * numbers * number_bytes


class Slot:
    """The keys and values of one slot: the `KVCache` of the layers that run there."""

    def __init__(self, cache: KeyValueCache, heads: int, width: int) -> None:
        self.cache = cache
        shape = (cache.batch, heads, cache.length, width)
        self.keys, self.values = self._room(shape), self._room(shape)

    def _room(self, shape: tuple[int, ...]) -> Tensor:
        # what was not written yet is masked, but nothing times not-a-number is not a number
        make = torch.zeros if self.cache.reads_all else torch.empty
        return make(shape, device=self.cache.device, dtype=self.cache.dtype)

    def update(
        self, key: Float[Tensor, "batch head token score"], value: Float[Tensor, "batch head token score"]
    ) -> tuple[Float[Tensor, "batch head key score"], Float[Tensor, "batch head key score"]]:
        """Write new keys and values to the cache's current places; return all keys and values."""
        for kept, new in ((self.keys, key), (self.values, value)):
            self._write(kept, new.to(kept.dtype))
        # a prefix is all there is: it attends to itself, and not to empty places behind it
        if self.cache.at_start:
            return key, value
        reach, rows = self.cache.reach, self.cache.rows
        keys, values = self.keys[:, :, :reach], self.values[:, :, :reach]
        if rows is None or len(key) == self.cache.batch:
            return keys, values
        return keys.index_select(0, rows), values.index_select(0, rows)

    def _write(self, kept: Tensor, new: Tensor) -> None:
        rows, places = self.cache.rows, self.cache.places
        if rows is not None:
            new = new if len(new) == len(rows) else new.index_select(0, rows)
            new = kept.index_select(2, places).index_copy_(0, rows, new)
        kept.index_copy_(2, places, new)

    def select(self, rows: Int[Tensor, " row"], *, first: int = 0) -> None:
        """Give each sequence the past of another, from place `first` on; in place if there are not more."""
        if len(rows) > len(self.keys):
            self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
            return
        if len(rows) < len(self.keys):
            first = 0
        for kept in (self.keys, self.values):
            past = kept[:, :, first : self.cache.filled]
            past[: len(rows)] = past.index_select(0, rows)
        self.keys, self.values = self.keys[: len(rows)], self.values[: len(rows)]

    def widen(self, places: int) -> None:
        """Make room for more places."""
        filled = self.cache.filled
        for name in ("keys", "values"):
            kept = getattr(self, name)
            wider = self._room((*kept.shape[:2], places, kept.shape[3]))
            wider[:, :, :filled] = kept[:, :, :filled]
            setattr(self, name, wider)


class KeyValueCache:
    """Preallocated slots for a batch of sequences, and which places of them are filled with real tokens.

    All tensors keep shape and address while tokens are added one by one, and nothing waits for the device.

    After `fork`, each sequence goes on in several beams. Its prefix is kept once, and the tokens of all beams
    stand behind it; `visible` says which of them are the past of a beam. When beams are chosen anew, no key
    and no value moves.

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
        self.beams = 1
        # off the CPU tokens attend to all places, filled or not: a step then has the same shapes for each
        self.reads_all = torch.device(device).type != "cpu"
        self.steps = default_steps(program) if steps is None else steps
        self.device, self.dtype = torch.device(device), dtype
        self.prefix = self.tokens = 0
        self.rows: Int[Tensor, " row"] | None = None  # the sequences that are read; None means all
        self.visible = torch.zeros(batch, 1, length, dtype=torch.bool, device=self.device)
        self.positions = torch.zeros(batch, 1, dtype=torch.int64, device=self.device)
        self.next = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.slots = {
            name: Slot(self, layers.key_heads, layers.width_of_head(width))
            for name, layers in slots_of(program, steps=self.steps, policy=policy).items()
        }

    @property
    def at_start(self) -> bool:
        """True while a prefix is being read, and before."""
        return self.tokens == 0

    @property
    def filled(self) -> int:
        """The number of places that hold a token: those of the prefix, then one for each token and beam."""
        return 0 if self.at_start else self.prefix + self.beams * (self.tokens - self.prefix)

    @property
    def places(self) -> Int[Tensor, " token"]:
        """The places that keys and values are written to: all of a prefix, or those of the latest tokens."""
        return torch.arange(self.prefix, device=self.device) if self.at_start else self.next

    @property
    def reach(self) -> int:
        """The number of places that a token attends to, masked ones included."""
        return self.visible.shape[2] if self.reads_all else self.filled

    @property
    def bytes(self) -> int:
        """The bytes of the keys and values."""
        tensors = (tensor for slot in self.slots.values() for tensor in (slot.keys, slot.values))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

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
        self.visible[:, :, : self.prefix] = attention_mask[:, None]
        self.positions.copy_(attention_mask.sum(dim=1, keepdim=True) - 1)

    def prefix_done(self) -> None:
        """Move behind the prefix, after it was read."""
        self.tokens = self.prefix
        self.next.fill_(self.prefix - 1)

    def fork(self, beams: int) -> None:
        """Let each sequence go on in several beams, after its prefix was read and before anything else."""
        if self.beams > 1 or self.at_start or self.tokens != self.prefix:
            raise ValueError("sequences fork once, directly after their prefix was read")
        places = self.prefix + beams * (self.length - self.prefix)
        for slot in self.slots.values():
            slot.widen(places)
        self.beams = beams
        visible = torch.zeros(self.batch, beams, places, dtype=torch.bool, device=self.device)
        visible[:, :, : self.prefix] = self.visible[:, :, : self.prefix]
        self.visible, self.positions = visible, self.positions.repeat(1, beams)
        self.next = torch.arange(self.prefix - beams, self.prefix, device=self.device)

    def reserve(self) -> None:
        """Count a token before it is read, if there is room for it."""
        if self.tokens >= self.length:
            raise ValueError(f"this cache holds length={self.length} tokens and is full")
        self.tokens += 1

    def advance(self) -> None:
        """Move on to the places of the tokens that were reserved; their beams can see them from now on."""
        self.next += self.beams
        self.positions += 1
        self.visible.scatter_(2, self.next[None, :, None].expand(self.batch, -1, 1), True)

    def clear(self) -> None:
        """Clear the cache, and keep its memory for another prefix."""
        if self.beams > 1:
            raise ValueError("a cache of beams cannot be used again; make a new one")
        self.prefix = self.tokens = 0
        self.rows = None
        self.visible.zero_()

    def carry(self, loop: str, ends: Int[Tensor, " batch"]) -> None:
        """Let iterations that a sequence did not run have the keys and values of its last one.

        Args:
            loop: address of the loop.
            ends: the last iteration of each sequence at the current places.
        """
        places, first, last = self.places, int(ends.min()), int(ends.max())
        ran = f"{loop}[{first}]"
        for inside in [name.removeprefix(ran) for name in self.slots if name.startswith(ran)]:
            slots = [self.slots[f"{loop}[{number}]{inside}"] for number in range(first, self.steps + 1)]
            for tensors in ([slot.keys for slot in slots], [slot.values for slot in slots]):
                kept = tensors[0].index_select(2, places)
                for number, tensor in enumerate(tensors[1:], start=first + 1):
                    if number <= last:  # some sequences ran this iteration
                        ended = (ends < number)[:, None, None, None]
                        kept = torch.where(ended, kept, tensor.index_select(2, places))
                    tensor.index_copy_(2, places, kept)

    def select(self, rows: Int[Tensor, " row"], *, same_prefix: bool = False) -> None:
        """Give each sequence the past of another: `rows[i]` becomes i. There may be more or fewer of them.

        The beams of a sequence are consecutive rows, and each goes on from a beam of the same sequence.
        `same_prefix` promises that no sequence changes its prefix, so that only what came after it moves.
        """
        if self.beams == 1:
            self._select(rows, first=self.prefix if same_prefix else 0)
            return
        chosen = rows.view(-1, self.beams)
        if len(chosen) != self.batch:
            self._select(chosen[:, 0] // self.beams)
        beams = (chosen % self.beams)[:, :, None].expand(self.visible.shape)
        self.visible.copy_(self.visible.gather(1, beams))

    def _select(self, rows: Int[Tensor, " row"], *, first: int = 0) -> None:
        for slot in self.slots.values():
            slot.select(rows, first=first)
        visible, positions = self.visible.index_select(0, rows), self.positions.index_select(0, rows)
        if len(rows) == self.batch:
            self.visible.copy_(visible)
            self.positions.copy_(positions)
        else:
            self.batch, self.visible, self.positions = len(rows), visible, positions
