"""Corpora by name: their sources, files, terms and repairs."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from algoformer.language.corpora import clean


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The location of a corpus on the Hugging Face hub.

    Attributes:
        repository: its name there.
        columns: of the text; several are joined by a space. For translation: source, then target.
        label: the column of the class.
        config: which part of the repository; None where there is one only.
        revision: of the repository; None for its main branch.
        nested: the column that holds `columns` as an object; None if they are columns themselves.
    """

    repository: str
    columns: tuple[str, ...]
    label: str | None = None
    config: str | None = None
    revision: str | None = None
    nested: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A corpus that is read from files or from the hub.

    Attributes:
        name: also its folder inside the data folder.
        about: one line on what it is.
        where: how a user gets it.
        terms: what it may be used for.
        credit: whom a model that was trained on it is owed to, where the terms let one be given away.
        hub: where it is on the hub; None if it is not there in this form.
        repair: undoes what the set is known to have in its text.
        spelling: brings its text to how people write, for sets that come taken apart into tokens.
        classes: names of the labels, for sets that come without `classes.txt`; empty for translation.
        test: the name of the split that is reported.
        further: further splits that are read where they are there.
    """

    name: str
    about: str
    where: str
    terms: str
    hub: Hub | None
    credit: str = ""
    repair: Callable[[str], str] = clean.plain
    spelling: Callable[[str], str] | None = None
    classes: tuple[str, ...] = ()
    test: str = "test"
    further: tuple[str, ...] = field(default=())


_ZHANG = "the csv files of Zhang, Zhao and LeCun (2015), {folder}/train.csv and test.csv"
_YAHOO = (
    *("Society & Culture", "Science & Mathematics", "Health", "Education & Reference"),
    *("Computers & Internet", "Sports", "Business & Finance", "Entertainment & Music"),
    *("Family & Relationships", "Politics & Government"),
)
_DBPEDIA = (
    *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation"),
    *("Building", "NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
)


def _by_name(*sources: Source) -> dict[str, Source]:
    return {source.name: source for source in sources}


PARALLEL: Mapping[str, Source] = _by_name(
    Source(
        name="iwslt14_de_en",
        about="TED talks, lower case, Moses tokens",
        where="the output of fairseq's prepare-iwslt14.sh: {train,valid,test}.{de,en}, subwords undone",
        terms="CC BY-NC-ND 4.0",
        hub=Hub(
            repository="bbaaaa/iwslt14-de-en-preprocess",
            columns=("de", "en"),
            config="de-en",
            revision="refs/convert/parquet",
            nested="translation",
        ),
        repair=html.unescape,
        spelling=clean.without_moses,
        further=("train_extra_ted_tst2013_2014",),
    ),
    Source(
        name="multi30k_de_en",
        about="image captions",
        where="data/task1/raw of github.com/multi30k/dataset, with val renamed valid, "
        "test_2016_flickr renamed test2016 and test_2017_flickr renamed test2017",
        terms="non-commercial research and education",
        hub=Hub(repository="bentrevett/multi30k", columns=("de", "en")),
        test="test2016",
        further=("test2017",),
    ),
    Source(
        name="tatoeba_de_en",
        about="short everyday sentences",
        where="deu-eng.zip of manythings.org/anki, its two columns as train.en and train.de",
        terms="CC BY 2.0, attribution manythings.org/anki and tatoeba.org",
        credit="sentences by the contributors of tatoeba.org, CC BY 2.0 FR, paired by manythings.org/anki",
        hub=None,
    ),
)
"""German–English sets."""

LABELLED: Mapping[str, Source] = _by_name(
    Source(
        name="ag_news",
        about="news, 4 topics",
        where=_ZHANG.format(folder="ag_news_csv"),
        terms="non-commercial",
        hub=Hub(repository="fancyzhx/ag_news", columns=("text",), label="label"),
        repair=clean.entity_remnants,
        classes=("World", "Sports", "Business", "Sci/Tech"),
    ),
    Source(
        name="imdb",
        about="film reviews, negative or positive",
        where="aclImdb of Maas et al. (2011), as csv with the header label,text",
        terms="no licence stated; the authors ask for citation",
        hub=Hub(repository="stanfordnlp/imdb", columns=("text",), label="label"),
        repair=clean.tag_breaks,
        classes=("neg", "pos"),
    ),
    Source(
        name="dbpedia",
        about="first sentences of articles, 14 kinds of things",
        where=_ZHANG.format(folder="dbpedia_csv"),
        terms="CC BY-SA and GFDL",
        credit="abstracts of Wikipedia's authors as extracted by DBpedia, CC BY-SA 3.0 and GFDL; classes and "
        "choice of articles by Zhang, Zhao and LeCun (2015)",
        hub=Hub(repository="fancyzhx/dbpedia_14", columns=("title", "content"), label="label"),
        classes=_DBPEDIA,
    ),
    Source(
        name="yelp_full",
        about="reviews, 1 to 5 stars",
        where=_ZHANG.format(folder="yelp_review_full_csv"),
        terms="Yelp's dataset terms: academic, non-commercial",
        hub=Hub(repository="Yelp/yelp_review_full", columns=("text",), label="label"),
        repair=clean.escaped_breaks,
        classes=("1 star", "2 stars", "3 stars", "4 stars", "5 stars"),
        further=("train_extra_imbalanced",),
    ),
    Source(
        name="newsgroups20",
        about="Usenet posts, 20 groups",
        where="20 Newsgroups, sorted by date, as csv with the header label,text and a classes.txt",
        terms="public Usenet articles, no licence stated",
        hub=Hub(repository="SetFit/20_newsgroups", columns=("text",), label="label"),
    ),
    Source(
        name="yahoo_answers",
        about="questions with their best answer, 10 topics",
        where=_ZHANG.format(folder="yahoo_answers_csv") + ", after signing Yahoo's agreement",
        terms="Yahoo Webscope: research only, signed agreement",
        hub=Hub(
            repository="community-datasets/yahoo_answers_topics",
            columns=("question_title", "question_content", "best_answer"),
            label="topic",
        ),
        repair=clean.escaped_breaks,
        classes=_YAHOO,
    ),
)
"""Sets for classification."""
