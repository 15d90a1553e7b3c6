"""The models of the tables: all that were asked for, and compared ones under one budget."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from algoformer.language import TextClassifier, TokenModel
from algoformer.model.program import default_steps
from paper.text_items import SETS, TRANSLATIONS, TextRunSpec, table_items


def built(item: TextRunSpec) -> nn.Module:
    """The model with as many tokens as its recipe allows, and the classes of DBpedia; it has no weights."""
    sizes: Any = {"vocabulary": item.data.vocabulary, "context": item.data.context}
    sizes["width"] = item.experiment.width
    with torch.device("meta"):
        if item.is_translator:
            return TokenModel(item.experiment.program, **sizes)
        return TextClassifier(item.experiment.program, labels=[str(n) for n in range(14)], **sizes)


@pytest.mark.parametrize("scale", ["tiny", "short", "paper"])
@pytest.mark.parametrize("table", ["table1", "table2"])
def test_compared_models_have_the_same_budget(table: Any, scale: Any) -> None:
    items = table_items(table, scale)
    assert len({item.name for item in items}) == len(items)
    groups: dict[tuple[str, str, str], list[TextRunSpec]] = {}
    for item in items:
        if item.size != "shipped" and (scale != "tiny" or not item.variant):
            groups.setdefault((item.name.partition("/")[0], item.size, item.variant), []).append(item)
    for alike in groups.values():
        assert {item.program for item in alike} == {"standard", "looped", "algoformer"}
        budgets = {(item.experiment.training.steps, item.data, item.experiment.width) for item in alike}
        assert len(budgets) == 1


def test_everything_that_was_asked_for_is_there() -> None:
    first = {item.name for item in table_items("table1", "short")}
    models = ("standard", "looped", "algoformer")
    assert first == {
        *(f"iwslt14_de_en/{model}{ending}" for model in models for ending in ("", "-causal")),
        *(f"mixed_de_en/{model}-tuned" for model in models),
        "tatoeba_de_en/algoformer-shipped",
    }
    second = {item.name for item in table_items("table2", "short")}
    assert second == {
        *(f"{name}/{model}{size}" for name in SETS for model in models for size in ("", "-tuned")),
        "dbpedia/algoformer-shipped",
    }


@pytest.mark.parametrize("model", ["standard", "looped", "algoformer"])
def test_a_variant_differs_in_one_setting_only(model: str) -> None:
    items = {item.name: item.experiment for item in table_items("table1", "short")}
    plain, causal = items[f"iwslt14_de_en/{model}"], items[f"iwslt14_de_en/{model}-causal"]
    assert (plain.data.prefix_lm, causal.data.prefix_lm) == (True, False)
    changed = causal.to_data()
    changed["data"]["settings"]["prefix_lm"] = True
    assert changed == plain.to_data()


def test_tuned_models_apply_as_many_layers_and_fit_the_limit() -> None:
    specs = {item.name: item for item in table_items("table1", "short")}
    model = built(specs["mixed_de_en/algoformer-tuned"])
    assert sum(weight.numel() for weight in model.parameters()) <= 40_000_000
    items = {name: item.experiment for name, item in specs.items()}
    ours = items["mixed_de_en/algoformer-tuned"]
    pre, loop, post = (part for part in ours.program.parts)
    assert pre.count + default_steps(ours.program) * loop.body.parts[0].count + post.count == 12  # type: ignore[union-attr]
    looped = items["mixed_de_en/looped-tuned"].program
    assert default_steps(looped) * looped.parts[0].body.parts[0].count == 12  # type: ignore[union-attr]
    assert items["mixed_de_en/standard-tuned"].program.parts[0].count == 12  # type: ignore[union-attr]
    assert ours.training.window == 2


def test_steps_follow_from_epochs_and_a_number_can_be_given() -> None:
    reading = TRANSLATIONS[0]
    for budget in (4096, 8192):
        steps = reading.steps("short", budget)
        assert steps % 100 == 0
        # so many tokens are read in the epochs, to within half a hundred steps
        assert abs(steps * budget * 0.95 - reading.epochs * reading.tokens) <= 50 * budget
    assert {item.experiment.training.steps for item in table_items("table2", "short", steps=7)} == {7}


def test_what_is_shipped_is_small() -> None:
    ours = [
        next(item for item in table_items(table, "short") if item.size == "shipped")
        for table in ("table1", "table2")
    ]
    models = [built(item) for item in ours]
    numbers = sum(weight.numel() for model in models for weight in model.parameters())
    assert 2 * numbers < 11.2e6  # two bytes each, and some room for tokenizers and cards
