"""Tasks on sequences of symbols whose answer needs as many steps as the sequence is long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.prompt import Prompt
from algoformer.tasks.symbols import Answers, SymbolTask, one_hot
from algoformer.tasks.task import check_count


@dataclass(frozen=True, kw_only=True)
class Hops(SymbolTask):
    """p-hop induction: follow the last symbol backwards `hops` times (Sanford et al. 2024).

    A hop from position i goes to the position after the latest earlier occurrence of the symbol at i. The
    question at the last row asks for the symbol after all hops; the class `symbols` means that a hop found
    no earlier occurrence.

    >>> Hops(length=8, symbols=3, hops=2).sample(4, generator=torch.Generator().manual_seed(0)).rows.shape
    torch.Size([4, 8, 3])
    """

    length: int = 32
    symbols: int = 4
    hops: int = 4

    points: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("length", self.length, 2)
        check_count("symbols", self.symbols, 2, 2**16)
        check_count("hops", self.hops, 1, self.length)

    @property
    def dim(self) -> int:
        """A row is a one-hot vector of the symbols."""
        return self.symbols

    @property
    def out(self) -> int:
        """The symbols, and a class for a chain of hops that ends early."""
        return self.symbols + 1

    @property
    def context(self) -> int:
        """The length of a sequence."""
        return self.length

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sequences of independent, uniform symbols."""
        shape = (batch, self.length)
        symbols = torch.randint(self.symbols, shape, generator=generator, device=generator.device)
        position = torch.full((batch,), self.length - 1, device=generator.device)
        for _ in range(self.hops):
            position = _hop(symbols, position)
        return symbols, _symbol_at(symbols, position, self.symbols)

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the algorithm that hops once at every iteration, until all hops are done."""
        symbols = prompt.rows.argmax(dim=2)
        position = torch.full_like(symbols[:, 0], symbols.shape[1] - 1)
        for _ in range(self.hops):
            position = _hop(symbols, position)
            yield one_hot(_symbol_at(symbols, position, self.symbols), self.out, prompt.rows.dtype)


def _hop(symbols: Int[Tensor, "batch row"], position: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """Return the position after the latest earlier occurrence of the symbol; -1 where there is none."""
    places = torch.arange(symbols.shape[1], device=symbols.device)
    here = symbols.gather(1, position.clamp(min=0)[:, None])
    earlier = (symbols == here) & (places < position[:, None])
    latest = torch.where(earlier, places, -1).amax(dim=1)
    return torch.where((position >= 0) & (latest >= 0), latest + 1, -1)


def _symbol_at(
    symbols: Int[Tensor, "batch row"], position: Int[Tensor, " batch"], missing: int
) -> Int[Tensor, "batch 1"]:
    found = symbols.gather(1, position.clamp(min=0)[:, None])
    return torch.where(position[:, None] < 0, missing, found)


@dataclass(frozen=True, kw_only=True)
class Addition(SymbolTask):
    """The sum of several decimal numbers: "12+7+ 93=", then one row for each digit of the sum.

    Digits stand with the largest place first, and numbers have leading zeros. The answer rows hold a
    placeholder, so that no row shows a digit of the sum.

    >>> prompt = Addition(numbers=2, digits=1).sample(1, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    ([[4, 10, 9, 11, 11]], [[1, 3]])
    """

    numbers: int = 4
    digits: int = 2

    dim: ClassVar[int] = 12
    """Ten digits, the plus sign and the placeholder of an answer."""
    out: ClassVar[int] = 10
    """Ten digits."""

    def __post_init__(self) -> None:
        check_count("numbers", self.numbers, 2, 2**16)
        check_count("digits", self.digits, 1, 9)

    @property
    def context(self) -> int:
        """The rows of the numbers, of the signs between them and of the sum."""
        return self.numbers * (self.digits + 1) - 1 + self.points

    @property
    def points(self) -> int:
        """The number of digits of the largest sum."""
        return len(str(self.numbers * (10**self.digits - 1)))

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sums of independent, uniform digits."""
        shape = (batch, self.numbers, self.digits)
        digits = torch.randint(10, shape, generator=generator, device=generator.device)
        total = (digits * _powers(self.digits, digits)).sum(dim=(1, 2))
        signs = torch.full_like(digits[:, :, :1], 10)
        numbers = torch.cat([digits, signs], dim=2).flatten(1)[:, :-1]
        slots = torch.full_like(numbers[:, :1], 11).expand(-1, self.points)
        return torch.cat([numbers, slots], dim=1), _digits_of(total, self.points)

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the algorithm that adds one number to a running total at every iteration."""
        symbols = prompt.rows.argmax(dim=2)[:, : -self.points]
        numbers = torch.nn.functional.pad(symbols, (0, 1)).unflatten(1, (self.numbers, self.digits + 1))
        values = (numbers[:, :, :-1] * _powers(self.digits, numbers)).sum(dim=2)
        for total in values.cumsum(dim=1).unbind(dim=1):
            yield one_hot(_digits_of(total, self.points), self.out, prompt.rows.dtype)


def _powers(digits: int, like: Tensor) -> Int[Tensor, " digit"]:
    return 10 ** torch.arange(digits - 1, -1, -1, device=like.device)


def _digits_of(total: Int[Tensor, " batch"], digits: int) -> Int[Tensor, "batch digit"]:
    return total[:, None] // _powers(digits, total) % 10


@dataclass(frozen=True, kw_only=True)
class Parity(SymbolTask):
    """The parity of up to `length` bits; shorter sequences are padded on the left.

    `Prompt.stages` holds the parity of the last t bits, for t = 1, 2, ..., as the automaton reads them.

    Lengths are uniform in `least`..`length`. Evaluate a model on `Parity(length=L, least=L)` with a larger L
    to see how it does beyond its training lengths; its program needs positions that are not learned.

    >>> prompt = Parity(length=3).sample(1, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    ([[1, 1, 0, 3]], [[0]])
    """

    length: int = 20
    least: int = 1

    dim: ClassVar[int] = 4
    """Two bits, padding, and the question."""
    out: ClassVar[int] = 2
    """Even or odd."""
    points: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("least", self.least, 1, self.length)

    @property
    def context(self) -> int:
        """The bits and the question."""
        return self.length + 1

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sequences of uniform length and uniform bits."""
        device = generator.device
        lengths = torch.randint(self.least, self.length + 1, (batch, 1), generator=generator, device=device)
        bits = torch.randint(2, (batch, self.length), generator=generator, device=device)
        shown = torch.arange(self.length, device=device) >= self.length - lengths
        answer = (bits * shown).sum(dim=1, keepdim=True) % 2
        return torch.nn.functional.pad(torch.where(shown, bits, 2), (0, 1), value=3), answer

    def _draw(self, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Prompt:
        prompt = super()._draw(batch, generator, dtype)
        parities = self._bits(prompt).flip(1).cumsum(dim=1) % 2
        return replace(prompt, stages=one_hot(parities.T, self.out, dtype)[:, :, None])

    def _bits(self, prompt: Prompt) -> Int[Tensor, "batch bit"]:
        return (prompt.rows.argmax(dim=2)[:, :-1] == 1).long()

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the automaton that reads one bit at every iteration, from the right."""
        bits = self._bits(prompt)
        for read in range(1, bits.shape[1] + 1):
            yield one_hot(bits[:, -read:].sum(dim=1, keepdim=True) % 2, 2, prompt.rows.dtype)


@dataclass(frozen=True, kw_only=True)
class Copy(SymbolTask):
    """Repeat a sequence of up to `length` symbols after a separator, one symbol a row, then an end symbol.

    The copy stands in the rows that follow, as a language model sees it, so that programs must be causal.
    The first half is padded on the left, the copy with end symbols on the right.

    >>> prompt = Copy(length=3, symbols=2, least=3).sample(1, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    ([[1, 1, 0, 4, 1, 1, 0]], [[1, 1, 0, 2]])
    """

    length: int = 20
    symbols: int = 2
    least: int = 1

    answers_in_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("symbols", self.symbols, 2, 2**16)
        check_count("least", self.least, 1, self.length)

    @property
    def dim(self) -> int:
        """The symbols, the end, padding and the separator."""
        return self.symbols + 3

    @property
    def out(self) -> int:
        """The symbols and the end."""
        return self.symbols + 1

    @property
    def context(self) -> int:
        """The sequence, the separator and the copy."""
        return 2 * self.length + 1

    @property
    def points(self) -> int:
        """Every symbol of the copy and the end are questions."""
        return self.length + 1

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sequences of uniform length and uniform symbols."""
        device = generator.device
        lengths = torch.randint(self.least, self.length + 1, (batch, 1), generator=generator, device=device)
        symbols = torch.randint(self.symbols, (batch, self.length), generator=generator, device=device)
        places = torch.arange(self.length + 1, device=device)
        copied = places < lengths
        # symbol j of the sequence stands at length - lengths + j: the sequence ends at the separator
        source = (self.length - lengths + places).clamp(max=self.length - 1)
        answers = torch.where(copied, symbols.gather(1, source), self.symbols)
        given = torch.where(places[:-1] >= self.length - lengths, symbols, self.symbols + 1)
        separator = torch.full_like(lengths, self.symbols + 2)
        return torch.cat([given, separator, answers[:, :-1]], dim=1), answers

    def textbook_answers(self, prompt: Prompt) -> Answers:
        """Run the algorithm that looks one symbol further at every iteration; the rest is the end."""
        given = prompt.rows.argmax(dim=2)[:, : self.length]
        padding = (given == self.symbols + 1).sum(dim=1, keepdim=True)
        places = torch.arange(self.length + 1, device=given.device)
        answers = given.gather(1, (padding + places).clamp(max=self.length - 1))
        answers = torch.where(places < self.length - padding, answers, self.symbols)
        for read in range(1, self.length + 2):
            known = torch.where(places < read, answers, self.symbols)
            yield one_hot(known, self.out, prompt.rows.dtype)
