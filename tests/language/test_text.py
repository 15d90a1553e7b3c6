import subprocess
import sys

import pytest

from algoformer.language import Corpus, LabelledText, ParallelText


def test_pairs_pair() -> None:
    with pytest.raises(ValueError, match="line by line, got 2 and 1"):
        ParallelText(source=("a", "b"), target=("c",))


def test_every_text_has_a_label() -> None:
    with pytest.raises(ValueError, match="texts and labels must pair line by line, got 1 and 0"):
        LabelledText(texts=("a",), labels=())


def test_labels_are_those_of_the_classes() -> None:
    good, wrong = LabelledText(texts=("a",), labels=(1,)), LabelledText(texts=("a",), labels=(2,))
    assert Corpus(name="x", train=good, valid=good, test=good, classes=("no", "yes")).splits()["test"] is good
    with pytest.raises(ValueError, match="split 'test' of x has label 2; there are 2 classes"):
        Corpus(name="x", train=good, valid=good, test=wrong, classes=("no", "yes"))


def test_taking_rows_keeps_their_order() -> None:
    text = ParallelText(source=("a", "b", "c"), target=("x", "y", "z"))
    assert text.take([2, 0]) == ParallelText(source=("c", "a"), target=("z", "x"))


def test_the_room_opens_without_any_optional_package() -> None:
    code = """
import sys
for name in ("tokenizers", "sacrebleu", "datasets", "transformers"):
    sys.modules[name] = None
from algoformer.language import Tokenizer, batches, load_labelled, packing, scores, tokens
print(len(load_labelled("small_topics").classes), len(Tokenizer([("a", "b")])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["4", "261"], done.stderr
