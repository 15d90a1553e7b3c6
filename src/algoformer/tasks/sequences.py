"""Tasks on sequences of symbols whose answer needs as many steps as the sequence is long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from algoformer.common.plain_data import check_count
from algoformer.tasks.symbols import Shape, SymbolTask


@dataclass(frozen=True, kw_only=True)
class Hops(SymbolTask):
    """p-hop induction: follow the last symbol backwards `hops` times (Sanford et al. 2024).

    A hop from position i goes to the position after the latest earlier occurrence of the symbol at i. The
    question at the last row asks for the symbol after all hops; the class `symbols` means that a hop found
    no earlier occurrence. `Prompt.stages` holds the symbols after 1, 2, ..., `hops` hops.

    Attributes:
        length: the number of symbols of a sequence.
        symbols: the number of different symbols.
        hops: the number of hops.
        every_row: ask at every row, from that row on, as in the original; False asks at the last row only.

    >>> Hops(length=8, symbols=3, hops=2).sample(4, generator=torch.Generator().manual_seed(0)).rows.shape
    torch.Size([4, 8, 3])
    """

    length: int = 32
    symbols: int = 4
    hops: int = 4
    every_row: bool = False

    has_stages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("length", self.length, 2)
        check_count("symbols", self.symbols, 2, 2**16)
        check_count("hops", self.hops, 1, self.length)

    @property
    def shape(self) -> Shape:
        """A row for each symbol; the classes are the symbols, and one for a chain of hops that ends early."""
        questions = self.length if self.every_row else 1
        return Shape(symbols=self.symbols, classes=self.symbols + 1, rows=self.length, questions=questions)

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sequences of independent, uniform symbols."""
        shape = (batch, self.length)
        symbols = torch.randint(self.symbols, shape, generator=generator, device=generator.device)
        *_, answers = self._steps(symbols)
        return symbols, answers

    def _steps(self, symbols: Int[Tensor, "batch row"]) -> Iterator[Int[Tensor, "batch question"]]:
        """Hop once at every iteration, until all hops are done."""
        # a last row stands for "no earlier occurrence", from where every hop stays
        end = symbols.shape[1]
        after = torch.nn.functional.pad(_place_after_earlier(symbols), (0, 1), value=end)
        named = torch.nn.functional.pad(symbols, (0, 1), value=self.symbols)
        position = torch.arange(end - self.points, end, device=symbols.device).expand(len(symbols), -1)
        for _ in range(self.hops):
            position = after.gather(1, position)
            yield named.gather(1, position)


def _place_after_earlier(symbols: Int[Tensor, "batch row"]) -> Int[Tensor, "batch row"]:
    """Return the place after the latest earlier row with the same symbol; the length where there is none."""
    places = torch.arange(symbols.shape[1], device=symbols.device)
    earlier = (symbols[:, None] == symbols[:, :, None]) & (places < places[:, None])
    latest = torch.where(earlier, places, -1).amax(dim=2)
    return torch.where(latest < 0, len(places), latest + 1)


@dataclass(frozen=True, kw_only=True)
class Addition(SymbolTask):
    """The sum of several decimal numbers: "12+7+ 93=", then one row for each digit of the sum.

    Digits stand with the largest place first, and numbers have leading zeros. The answer rows hold a
    placeholder, so that no row shows a digit of the sum. `Prompt.stages` holds the sums of the first number,
    of the first two, and so on.

    Attributes:
        numbers: how many numbers are added.
        digits: the number of digits of each number.

    >>> prompt = Addition(numbers=2, digits=1).sample(1, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    ([[4, 10, 9, 11, 11]], [[1, 3]])
    """

    numbers: int = 4
    digits: int = 2

    has_stages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("numbers", self.numbers, 2, 2**16)
        check_count("digits", self.digits, 1, 9)

    @property
    def shape(self) -> Shape:
        """Rows for the numbers, the signs and the largest sum; ten digits, the sign and the placeholder."""
        questions = len(str(self.numbers * (10**self.digits - 1)))
        rows = self.numbers * (self.digits + 1) - 1 + questions
        return Shape(symbols=12, classes=10, rows=rows, questions=questions)

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sums of independent, uniform digits."""
        shape = (batch, self.numbers, self.digits)
        digits = torch.randint(10, shape, generator=generator, device=generator.device)
        signs = torch.full_like(digits[:, :, :1], 10)
        numbers = torch.cat([digits, signs], dim=2).flatten(1)[:, :-1]
        slots = torch.full_like(numbers[:, :1], 11).expand(-1, self.points)
        symbols = torch.cat([numbers, slots], dim=1)
        return symbols, _digits_of(self._totals(symbols)[:, -1], self.points)

    def _totals(self, symbols: Int[Tensor, "batch row"]) -> Int[Tensor, "batch stage"]:
        """Return the sum of the first, of the first two, ..., of all numbers."""
        signed = torch.nn.functional.pad(symbols[:, : -self.points], (0, 1))
        digits = signed.unflatten(1, (self.numbers, self.digits + 1))[:, :, :-1]
        return (digits * _powers(self.digits, digits)).sum(dim=2).cumsum(dim=1)

    def _steps(self, symbols: Int[Tensor, "batch row"]) -> Iterator[Int[Tensor, "batch question"]]:
        """Add one number to a running total at every iteration."""
        for total in self._totals(symbols).unbind(dim=1):
            yield _digits_of(total, self.points)


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

    Attributes:
        length: the largest number of bits.
        least: the smallest number of bits.

    >>> prompt = Parity(length=3).sample(1, generator=torch.Generator().manual_seed(0))
    >>> prompt.rows.argmax(dim=2).tolist(), prompt.targets.argmax(dim=2).tolist()
    ([[1, 1, 0, 3]], [[0]])
    """

    length: int = 20
    least: int = 1

    has_stages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("length", self.length)
        check_count("least", self.least, 1, self.length)

    @property
    def shape(self) -> Shape:
        """Rows for the bits and the question; two bits, padding and the question; even or odd."""
        return Shape(symbols=4, classes=2, rows=self.length + 1, questions=1)

    def _symbols(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw sequences of uniform length and uniform bits."""
        device = generator.device
        lengths = torch.randint(self.least, self.length + 1, (batch, 1), generator=generator, device=device)
        bits = torch.randint(2, (batch, self.length), generator=generator, device=device)
        shown = torch.arange(self.length, device=device) >= self.length - lengths
        answer = (bits * shown).sum(dim=1, keepdim=True) % 2
        return torch.nn.functional.pad(torch.where(shown, bits, 2), (0, 1), value=3), answer

    def _steps(self, symbols: Int[Tensor, "batch row"]) -> Iterator[Int[Tensor, "batch question"]]:
        """Read one bit at every iteration, from the right, as the automaton of two states does."""
        bits = (symbols[:, :-1] == 1).long()
        yield from (bits.flip(1).cumsum(dim=1) % 2).split(1, dim=1)


@dataclass(frozen=True, kw_only=True)
class Copy(SymbolTask):
    """Repeat a sequence of up to `length` symbols after a separator, one symbol a row, then an end symbol.

    The copy stands in the rows that follow, as a language model sees it, so that programs must be causal.
    The first half is padded on the left, the copy with end symbols on the right.

    Attributes:
        length: the largest number of symbols to copy.
        symbols: the number of different symbols.
        least: the smallest number of symbols to copy.

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
    def shape(self) -> Shape:
        """Rows for the sequence, the separator and the copy; symbols, the end, padding and the separator."""
        rows, questions = 2 * self.length + 1, self.length + 1  # the copy and its end
        return Shape(symbols=self.symbols + 3, classes=self.symbols + 1, rows=rows, questions=questions)

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

    def _steps(self, symbols: Int[Tensor, "batch row"]) -> Iterator[Int[Tensor, "batch question"]]:
        """Look one symbol further at every iteration; the rest is the end."""
        given = symbols[:, : self.length]
        padding = (given == self.symbols + 1).sum(dim=1, keepdim=True)
        places = torch.arange(self.length + 1, device=given.device)
        answers = given.gather(1, (padding + places).clamp(max=self.length - 1))
        answers = torch.where(places < self.length - padding, answers, self.symbols)
        for read in range(1, self.length + 2):
            yield torch.where(places < read, answers, self.symbols)
