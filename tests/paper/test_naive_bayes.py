import math

import numpy as np
import pytest

from algoformer.language import Corpus, LabelledText
from paper.naive_bayes import NaiveBayes, naive_bayes_accuracy

TRAIN = LabelledText(texts=("Good, good film", "bad film", "good"), labels=(1, 0, 1))


def test_weights_are_counts_raised_by_one() -> None:
    model = NaiveBayes.fit(TRAIN, classes=2)
    assert set(model.words) == {"good", "film", "bad"}
    # class 1 has good ×3, film ×1; class 0 has bad ×1, film ×1; each raised by one over three words
    wanted = {
        ("good", 1): 4 / 7,
        ("film", 1): 2 / 7,
        ("bad", 1): 1 / 7,
        ("good", 0): 1 / 5,
        ("bad", 0): 2 / 5,
    }
    for (word, label), share in wanted.items():
        assert model.weights[label, model.words[word]] == pytest.approx(math.log(share))
    np.testing.assert_allclose(np.exp(model.bias), [2 / 5, 3 / 5])


def test_the_likelier_class_is_chosen_and_unknown_words_say_nothing() -> None:
    model = NaiveBayes.fit(TRAIN, classes=2)
    assert model.predict(["BAD bad", "good", "unheard of", ""]).tolist() == [0, 1, 1, 1]


def test_the_floor_is_counted_on_the_test_split() -> None:
    test = LabelledText(texts=("good", "bad", "bad bad", "good film"), labels=(1, 0, 1, 1))
    corpus = Corpus(name="x", train=TRAIN, valid=TRAIN, test=test, classes=("no", "yes"))
    assert naive_bayes_accuracy(corpus).value == pytest.approx(75)
