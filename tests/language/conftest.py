"""A tokenizer that several tests share."""

import pytest

from algoformer.language import Tokenizer
from scripts.small_corpora.dice import Dice
from scripts.small_corpora.topics import draw_text

TEXTS = tuple(draw_text(dice).text for dice in [Dice(0)] for _ in range(300))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    return Tokenizer.train(TEXTS, vocabulary=400)
