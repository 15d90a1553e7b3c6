"""Naive Bayes on word counts: the baseline of text classification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from algoformer.language.scores import Score, accuracy
from algoformer.language.text import Corpus, LabelledText

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveBayes:
    """Multinomial naive Bayes on lower-case words, each count raised by one.

    Attributes:
        words: the number of each word of the training texts.
        weights: log-probability of each word in each class.
        bias: log-probability of each class.
    """

    words: Mapping[str, int]
    weights: Float[np.ndarray, "label word"]
    bias: Float[np.ndarray, " label"]

    @classmethod
    def fit(cls, text: LabelledText, *, classes: int) -> NaiveBayes:
        """Count the words of the training texts."""
        words: dict[str, int] = {}
        numbers, owners = [], []
        for row, one in enumerate(text.texts):
            found = [words.setdefault(word, len(words)) for word in _WORD.findall(one.lower())]
            numbers.append(np.array(found, dtype=np.int64))
            owners.append(np.full(len(found), text.labels[row], dtype=np.int64))
        places = np.concatenate(owners) * len(words) + np.concatenate(numbers)
        counts = np.bincount(places, minlength=classes * len(words)).reshape(classes, len(words)) + 1.0
        prior = np.bincount(np.array(text.labels, dtype=np.int64), minlength=classes) + 1.0
        return cls(
            words=words,
            weights=np.log(counts / counts.sum(axis=1, keepdims=True)),
            bias=np.log(prior / prior.sum()),
        )

    def predict(self, texts: Iterable[str]) -> Int[np.ndarray, " row"]:
        """Return the most likely class of each text; words that training never saw say nothing."""
        by_word = np.ascontiguousarray(self.weights.T)
        answers = []
        for one in texts:
            known = [self.words[word] for word in _WORD.findall(one.lower()) if word in self.words]
            answers.append(int(np.argmax(self.bias + by_word[known].sum(axis=0))))
        return np.array(answers, dtype=np.int64)


def naive_bayes_accuracy(corpus: Corpus[LabelledText]) -> Score:
    """Return the test accuracy of naive Bayes trained on the training split."""
    model = NaiveBayes.fit(corpus.train, classes=len(corpus.classes))
    right = model.predict(corpus.test.texts) == np.array(corpus.test.labels)
    return accuracy(int(right.sum()), len(right))
