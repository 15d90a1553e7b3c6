import hashlib
import lzma
from importlib.resources import files

import pytest

from algoformer.language.corpora import small_parallel, small_topics
from paper.naive_bayes import naive_bayes_accuracy
from scripts.small_corpora.corpora import GENERATORS, LABELLED_SIZES, PARALLEL_SIZES, as_json
from scripts.small_corpora.lexicon import NOUNS
from scripts.small_corpora.topics import TOPICS
from scripts.small_corpora.verbs import VERBS

DIGESTS = {
    "small_de_en": "67ed5a93ca4ab10c05896b284ad149f1e67699a3da645753ffc3309c65616585",
    "small_topics": "c3729cff082fa835b12e37cb0718d551931916940ef6945ae204f53f477f10b6",
}
"""What models were trained on: another digest is another set of text, and needs another name."""


def words(texts: tuple[str, ...]) -> set[str]:
    return {word.strip(".,?!").lower() for text in texts for word in text.split()}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_generator_gives_the_bytes_of_the_data_file(name: str) -> None:
    packed = files("algoformer.language").joinpath("data", f"{name}.json.xz").read_bytes()
    generated = as_json(GENERATORS[name]())
    assert hashlib.sha256(generated).hexdigest() == DIGESTS[name]
    assert lzma.decompress(packed) == generated


def test_pairs_are_distinct_and_no_sentence_is_in_two_splits() -> None:
    corpus = small_parallel()
    assert {name: len(split) for name, split in corpus.splits().items()} == PARALLEL_SIZES
    for column in range(2):
        texts = [set(split.columns()[column]) for split in corpus.splits().values()]
        assert len(set.union(*texts)) == sum(map(len, texts))
    assert len(set(corpus.train.source)) == len(corpus.train)


def test_a_german_sentence_has_one_translation() -> None:
    from scripts.small_corpora.dice import Dice
    from scripts.small_corpora.sentences import draw_sentence

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
    assert 60 < naive_bayes_accuracy(corpus).value < 90


def test_most_words_of_a_topic_belong_to_another_too() -> None:
    by_topic = {name: words(things) for name, things in TOPICS.items()}
    for name, own in by_topic.items():
        others = set.union(*(found for other, found in by_topic.items() if other != name))
        assert len(own & others) > len(own) / 3
