"""The models of the paper's two tables on text: which ones, on which sets, over how many epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from algoformer.data import LabelledData, TranslationData
from algoformer.data.text_base import as_paths
from algoformer.training import Experiment
from algoformer.training.text_recipes import TextKind, TextScale, text_experiment
from paper.runs import Scale

TableName = Literal["table1", "table2"]

Size = Literal["tiny", "paper", "tuned", "shipped"]
"""How large a model is: that of one of the library's recipes."""

RECIPES: dict[Size, TextScale] = {"tiny": "smoke", "paper": "paper", "tuned": "tuned", "shipped": "short"}
"""The library's recipe of each size; the models of the recipe `short` are small enough to be given away."""

LABELS = {"standard": "standard", "looped": "looped", "algoformer": "AlgoFormer"}
ORDER = ("algoformer", "standard", "looped")
"""The models of a comparison, in the order in which they are trained."""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """What the models of a comparison read, the same for all of them.

    Attributes:
        name: of the comparison, before the slash of its runs.
        size: the size of its models.
        tokens: the tokens of its training split, which make an epoch.
        epochs: the epochs at the scale `short`; `paper` has more.
        data: settings of the data that differ from the recipe's.
        programs: the programs that are trained.
        variants: further models by name, with what differs in the settings of their data.
        varied: the programs that have those variants.
    """

    name: str
    size: Size
    tokens: int
    epochs: int | float
    data: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[str, ...] = ORDER
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    varied: tuple[str, ...] = ("algoformer",)

    def steps(self, scale: Scale, batch_tokens: int) -> int:
        """Training steps for the epochs, a whole hundred: batches are full but for some padding."""
        epochs = self.epochs * LONGER[scale]
        return max(1, round(epochs * self.tokens / (FULL * batch_tokens) / 100)) * 100


FULL = 0.95
"""How much of a batch is tokens; the rest is padding."""

LONGER: dict[Scale, float] = {"tiny": 1.0, "short": 1.0, "paper": 4.0}
"""Epochs of a scale, as a multiple of those at `short`."""

TINY_STEPS = 250

CAUSAL = {"causal": {"prefix_lm": False}}
"""The German sentence read from left to right too."""

TRANSLATIONS = (
    DatasetSpec(
        name="iwslt14_de_en", size="paper", tokens=2_420_088, epochs=14, variants=CAUSAL, varied=ORDER
    ),
    DatasetSpec(name="mixed_de_en", size="tuned", tokens=6_691_137, epochs=8),
    DatasetSpec(name="tatoeba_de_en", size="shipped", tokens=3_259_234, epochs=14, programs=("algoformer",)),
)
"""Table 1. IWSLT14 alone; all German–English pairs there are; a small model that may be given away."""

_LONG: dict[str, Any] = {"max_length": 512}
_WORDS: dict[str, Any] = {"lowercase": True}
SETS: dict[str, tuple[int, dict[str, Any]]] = {
    "ag_news": (2_404_485, {}),
    "dbpedia": (1_747_084, _WORDS),
    "imdb": (6_036_494, _LONG),
    "yelp_full": (2_971_519, _LONG),
    "newsgroups20": (2_374_549, _LONG | _WORDS),
}
"""The sets of table 2: tokens of an epoch, and settings that differ from the recipes'."""

EPOCHS: dict[str, dict[Size, int | float]] = {
    "ag_news": {"paper": 8, "tuned": 8},
    "dbpedia": {"paper": 12, "tuned": 7},
    "imdb": {"paper": 6, "tuned": 6},
    "yelp_full": {"paper": 8, "tuned": 6},
    "newsgroups20": {"paper": 16, "tuned": 14},
}
"""Of table 2, at the scale `short`.

The larger classifier of DBpedia was best after 7 of 12 epochs, on 5,000 texts held out of its training split.
"""


def _classifications() -> Iterator[DatasetSpec]:
    for name, (tokens, settings) in SETS.items():
        for size, epochs in EPOCHS[name].items():
            data = settings | {"corpus": name}
            yield DatasetSpec(name=name, size=size, tokens=tokens, epochs=epochs, data=data)
    tokens = SETS["dbpedia"][0]
    yield DatasetSpec(name="dbpedia", size="shipped", tokens=tokens, epochs=12, programs=("algoformer",))


@dataclass(frozen=True, kw_only=True)
class TextRunSpec:
    """A model to be trained on text and scored.

    Attributes:
        name: comparison, program, size and variant.
        experiment: what is trained and how.
        program: the name of its program.
        size: how large it is.
        variant: what differs from the model of the comparison; empty for that itself.
        studied: whether ways to decode are compared on it.
    """

    name: str
    experiment: Experiment
    program: str
    size: Size
    variant: str = ""
    studied: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its weights."""
        return {"experiment": self.experiment.to_data()}

    @property
    def data(self) -> TranslationData | LabelledData:
        """The text that it is trained and scored on."""
        assert isinstance(self.experiment.data, TranslationData | LabelledData)
        return self.experiment.data

    @property
    def is_translator(self) -> bool:
        """Whether it translates; it classifies otherwise."""
        return isinstance(self.data, TranslationData)

    @property
    def corpus(self) -> str:
        """The corpus that it is scored on first."""
        return as_paths(self.data.corpus, "corpus")[0]

    @property
    def label(self) -> str:
        """The model, in words."""
        notes = [self.size] if self.size in ("tuned", "shipped") else []
        return ", ".join([LABELS[self.program], *notes, *([self.variant] if self.variant else [])])


def table_items(table: TableName, scale: Scale, *, steps: int | None = None) -> tuple[TextRunSpec, ...]:
    """The models of a table at a scale, those of a comparison under the same budget of steps and tokens.

    >>> [item.name for item in table_items("table1", "tiny")][:3]
    ['small_de_en/algoformer', 'small_de_en/standard', 'small_de_en/looped']
    """
    kind: TextKind = "translation" if table == "table1" else "labels"
    if scale == "tiny":
        name, variants = ("small_de_en", CAUSAL) if table == "table1" else ("small_topics", {})
        readings = [DatasetSpec(name=name, size="tiny", tokens=1, epochs=1, variants=variants)]
    else:
        readings = list(TRANSLATIONS if table == "table1" else _classifications())
    return tuple(item for reading in readings for item in _items(kind, reading, scale, steps))


def _items(kind: TextKind, reading: DatasetSpec, scale: Scale, steps: int | None) -> Iterator[TextRunSpec]:
    ending = f"-{reading.size}" if reading.size in ("tuned", "shipped") else ""
    models: list[tuple[str, str, Mapping[str, Any]]] = [(program, "", {}) for program in reading.programs]
    for variant, changes in reading.variants.items():
        models += [(program, variant, changes) for program in reading.varied]
    for program, variant, changes in models:
        settings = {**reading.data, **changes}
        recipe = text_experiment(kind, program, RECIPES[reading.size], **settings)
        batch_tokens: int = recipe.data.batch_tokens  # type: ignore[attr-defined]
        taken = steps or (TINY_STEPS if scale == "tiny" else reading.steps(scale, batch_tokens))
        name = f"{reading.name}/{program}{ending}" + (f"-{variant}" if variant else "")
        yield TextRunSpec(
            name=name,
            experiment=replace(recipe, training=replace(recipe.training, steps=taken)),
            program=program,
            size=reading.size,
            variant=variant,
            studied=kind == "translation"
            and program == "algoformer"
            and not variant
            and reading.size != "tuned",
        )
