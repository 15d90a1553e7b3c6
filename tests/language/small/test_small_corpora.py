import hashlib
import os
import subprocess
import sys

from algoformer.language.naive_bayes import floor
from algoformer.language.small.corpora import (
    LABELLED_SIZES,
    PARALLEL_SIZES,
    small_parallel,
    small_topics,
)
from algoformer.language.small.lexicon import NOUNS
from algoformer.language.small.topics import TOPICS
from algoformer.language.small.verbs import VERBS

DIGEST = """
import hashlib
from algoformer.language.small.corpora import small_parallel, small_topics
digest = hashlib.sha256()
for corpus in (small_parallel(), small_topics()):
    for split in corpus.splits().values():
        for column in split.columns():
            digest.update(chr(10).join(column).encode())
print(digest.hexdigest())
"""


def words(texts: tuple[str, ...]) -> set[str]:
    return {word.strip(".,?!").lower() for text in texts for word in text.split()}


def test_it_is_the_same_in_every_process() -> None:
    digest = hashlib.sha256()
    for corpus in (small_parallel(), small_topics()):
        for split in corpus.splits().values():
            for column in split.columns():
                digest.update("\n".join(column).encode())
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, check=True)
    assert done.stdout.decode().strip() == digest.hexdigest()


def test_pairs_are_distinct_and_no_sentence_is_in_two_splits() -> None:
    corpus = small_parallel()
    assert {name: len(split) for name, split in corpus.splits().items()} == PARALLEL_SIZES
    for column in range(2):
        texts = [set(split.columns()[column]) for split in corpus.splits().values()]
        assert len(set.union(*texts)) == sum(map(len, texts))
    assert len(set(corpus.train.source)) == len(corpus.train)


def test_a_german_sentence_has_one_translation() -> None:
    from algoformer.language.small.dice import Dice
    from algoformer.language.small.sentences import draw_sentence

    dice, seen = Dice(5), {}
    for _ in range(1500):
        sentence = draw_sentence(dice)
        assert seen.setdefault(sentence.german, sentence.english) == sentence.english


def test_test_sentences_are_new_though_their_words_are_not() -> None:
    corpus = small_parallel()
    for column in range(2):
        known = words(corpus.train.columns()[column])
        new = words(corpus.test.columns()[column]) - known
        assert len(new) <= 0.01 * len(known), new
    # where somebody has read, carried, bought, ... something, the thing is easily found in the sentence
    participles = {one.participle for one in VERBS if one.subjects == "p" and len(one.objects) == 1}
    things = {form for one in NOUNS if one.kind in "rtf" for form in (one.german, one.plural)}
    met = {
        name: {
            (text.split()[-1], word)
            for text in split.source
            for word in text.rstrip(".").split()
            if "," not in text and text.rstrip(".").split()[-1] in participles and word in things
        }
        for name, split in corpus.splits().items()
    }
    assert all(map(len, met.values()))
    assert not met["train"] & (met["test"] | met["valid"])
    assert not met["valid"] & met["test"]


def test_topics_are_balanced_distinct_and_not_solved_by_counting_words() -> None:
    corpus = small_topics()
    assert {name: len(split) for name, split in corpus.splits().items()} == LABELLED_SIZES
    texts = [set(split.texts) for split in corpus.splits().values()]
    assert len(set.union(*texts)) == sum(map(len, texts))
    for label in range(4):
        assert 0.2 < corpus.train.labels.count(label) / len(corpus.train) < 0.3
    # a word counter is right on texts with one topic and guesses between two on the 40 % with both
    assert 60 < floor(corpus).value < 90


def test_most_words_of_a_topic_belong_to_another_too() -> None:
    by_topic = {name: words(things) for name, things in TOPICS.items()}
    for name, own in by_topic.items():
        others = set.union(*(found for other, found in by_topic.items() if other != name))
        assert len(own & others) > len(own) / 3
