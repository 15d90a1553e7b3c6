"""Small text models, and what PyTorch says about them."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from algoformer import programs
from algoformer.cli.explore_text import pack_text
from algoformer.language import TextClassifier, Tokenizer, TokenModel
from algoformer.language.checkpoint import TextCheckpoint
from algoformer.language.decode import CachedDecoder
from algoformer.language.tokenizer import EOS
from algoformer.report import Page as ReportPage
from algoformer.report.explorer import Text, text_page
from algoformer.trace import Unroll

EVIL = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["the dog sees the cat", "the cat sees the dog", "a dog"] * 4, vocabulary=290)


def small(model: TokenModel | TextClassifier, **card: object) -> TextCheckpoint:
    return TextCheckpoint(model=model.eval(), tokenizer=tokenizer().to_json(), card=card)


@cache
def language_model() -> TextCheckpoint:
    """A language model that has learned a few sentences."""
    torch.manual_seed(0)
    program = programs.algoformer(heads=2, steps=4)
    model = TokenModel(program, vocabulary=len(tokenizer()), context=24, width=16)
    lines = ["the dog sees the cat and the cat sees the dog", "a dog sees a cat"]
    ids = [[*tokenizer().encode(line), EOS] for line in lines]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for step in range(60):
        given = torch.tensor([ids[step % 2]])
        scores = model(given[:, :-1], Unroll(steps=4, window=2))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 2), given[:, 1:].flatten().repeat(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return small(model)


def page_text(checkpoint: Any, *, lead: str = "", lines: tuple[str, ...] = ("the dog",), **text: Any) -> str:
    model: Any = checkpoint.model
    shown = Text(tokenizer=checkpoint.tokenizer, lines=lines, longest=model.context - 1, plain=False, **text)
    return text_page(pack_text(model), model.program, shown, ReportPage(title=EVIL, lead=lead))


class Recorded:
    """A stopping rule that stops nothing and keeps the scores after every iteration."""

    max_steps, every, times = None, 1, 1

    def __init__(self) -> None:
        self.scores: list[Tensor] = []

    def summary(self, output: Tensor) -> Tensor:
        self.scores.append(output[0])
        return output

    def unchanged(self, before: Tensor, now: Tensor) -> Tensor:
        return torch.zeros(len(now), dtype=torch.bool)


def reference(model: TokenModel, given: list[int], count: int, steps: int) -> list[Tensor]:
    """Return PyTorch's scores of the next token after every iteration, for tokens of greedy decoding."""
    rule = Recorded()
    ids = torch.tensor([given])
    with torch.no_grad():
        first = model(ids, Unroll(steps=steps), prefix=torch.tensor([len(given)]))[:, 0, -1]
    decoder = CachedDecoder(model, batch=1, length=len(given) + count, steps=steps, early_exit=rule)
    scores, found = decoder.prefill(ids), [first]
    for _ in range(count - 1):
        rule.scores = []
        scores = decoder.step(scores.argmax(dim=-1))
        found.append(torch.stack([*rule.scores, scores[0]]))
    return found
