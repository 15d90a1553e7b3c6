"""A search space is a value: checked, printed, stored, and sampled."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algoformer import programs, tasks
from algoformer.model.cost import cost
from algoformer.model.program import Loop, Program
from algoformer.search import Point, SearchSettings, SearchSpace, register_kind, space_around
from algoformer.search.kinds import KINDS
from algoformer.training import Experiment, TrainConfig
from algoformer.training.presets import experiment
from random_programs import build


def some(values: list[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.sampled_from(values), min_size=1, unique=True).map(tuple)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    heads = draw(some([1, 2, 4, 8]))
    rates = sorted(draw(st.tuples(*[st.floats(1e-6, 1.0)] * 2)))
    fields = {
        "kind": draw(some(list(KINDS))),
        "pre": draw(some([0, 1, 2, 5])),
        "loop": draw(some([1, 2, 3])),
        "post": draw(some([0, 1, 3])),
        "heads": heads,
        "width": draw(some([8, 16, 24, 64])),
        "inject": draw(some(["add", "gate", "none", "concat", "decay"])),
        "inner_steps": draw(some([1, 2, 4])),
        "lr": (rates[0], rates[1]),
        "norm": draw(st.one_of(st.just(()), some(["layer", "rms"]))),
        "positions": draw(st.one_of(st.just(()), some(["learned", "rope"]))),
        "activation": draw(st.one_of(st.just(()), some(["gelu", "relu2"]))),
    }
    return build(lambda: SearchSpace(**fields))


@settings(max_examples=40)
@given(spaces())
def test_a_space_survives_json(space: SearchSpace) -> None:
    assert SearchSpace.from_json(space.to_json()) == space
    assert SearchSpace.from_json(json.dumps(json.loads(space.to_json()))) == space


@settings(max_examples=25)
@given(spaces(), st.integers(0, 100))
def test_what_optuna_draws_is_a_point_of_the_space(space: SearchSpace, seed: int) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    point = space.point(study.ask(space.distributions()).params)
    assert space.lr[0] <= point.lr <= space.lr[1]
    for name in space.names:
        assert name == "lr" or getattr(point, name) in getattr(space, name)
    assert space.point(point.params) == point


def test_numbers_at_equal_distances_are_ordered_for_the_sampler_and_others_are_not() -> None:
    pytest.importorskip("optuna")
    found = SearchSpace(pre=(0, 2, 4), width=(8, 16, 64), heads=(1,)).distributions()
    assert type(found["pre"]).__name__ == "IntDistribution"
    assert type(found["width"]).__name__ == "CategoricalDistribution"
    assert found["lr"].log  # type: ignore[attr-defined]


def test_a_space_is_printed_in_words() -> None:
    text = str(SearchSpace(kind=("nested",), width=(16, 32), lr=(1e-3, 1e-2), norm=("rms",)))
    assert "kind         nested" in text
    assert "lr           0.001 to 0.01, log scale" in text
    assert "norm         rms" in text
    assert "positions" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": ("algofromer",)}, "unknown kind of program 'algofromer' (did you mean 'algoformer'?)"),
        ({"pre": ()}, "pre needs at least one value"),
        ({"loop": (0, 1)}, "loop must be at least 1, got 0"),
        ({"width": (8, 8)}, "width has a value twice"),
        ({"width": (12,), "heads": (8,)}, "heads=8 divides none of the widths 12"),
        ({"lr": (1e-2, 1e-3)}, "lr must be the lowest and the highest learning rate"),
        ({"lr": (0.0, 1.0)}, "lr must be the lowest and the highest learning rate"),
        ({"inject": ("addd",)}, "unknown inject 'addd' (did you mean 'add'?)"),
        ({"norm": ("batch",)}, "unknown norm 'batch'; choose from layer"),
        ({"inner_steps": ("two",)}, "inner_steps[0] must be of type int, got 'two'"),
        ({"heads": 4}, "heads must be of type tuple[int, ...], got 4"),
        ({"depth": (1,)}, "SearchSpace has no field 'depth'"),
    ],
)
def test_a_wrong_space_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        SearchSpace.from_json(json.dumps(fields))
    assert message in str(caught.value)


def test_a_keyword_from_elsewhere_is_told_its_name_here() -> None:
    with pytest.raises(TypeError, match="did you mean 'lr'"):
        SearchSpace(learning_rate=(1e-3, 1e-2))  # type: ignore[call-arg]


def test_a_point_outside_is_refused() -> None:
    space = SearchSpace(width=(16,), heads=(2,))
    with pytest.raises(ValueError, match="needs a value of kind"):
        space.point({})
    inside = {"kind": "nested", "pre": 0, "loop": 1, "post": 0, "heads": 2, "width": 16, "inject": "add"}
    with pytest.raises(ValueError, match="lr=1 is not in the space"):
        space.point({**inside, "inner_steps": 2, "lr": 1})


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_the_default_space_surrounds_the_experiment_and_begins_with_its_program(scale: Any) -> None:
    around = experiment("linear", "algoformer", scale)
    space = space_around(around)
    first = space.hand_made(around)
    assert first is not None
    assert (first.kind, first.pre, first.loop, first.post, first.inject) == ("algoformer", 1, 1, 1, "add")
    assert (first.width, first.lr) == (around.width, pytest.approx(around.training.lr))
    assert min(space.width) < around.width < max(space.width)
    assert math.prod(space.lr) == pytest.approx(around.training.lr**2)


def test_a_space_without_the_hand_made_program_has_no_first_trial() -> None:
    around = experiment("linear", "algoformer")
    assert SearchSpace(kind=("nested",), width=(32,)).hand_made(around) is None
    assert SearchSpace(pre=(0, 2), width=(32,)).hand_made(around) is None


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("pre", "post"), [(0, 0), (2, 1)])
def test_every_kind_has_the_layers_and_iterations_that_its_point_says(kind: str, pre: int, post: int) -> None:
    point = Point(
        kind=kind, pre=pre, loop=2, post=post, heads=2, width=8, inject="gate", inner_steps=3, lr=0.1
    )
    program = KINDS[kind](point, 5, point.words)
    runs = {"algoformer": 5 * 2, "two_loops": 3 * 2 + 5 * 2, "nested": 5 * (2 + 3 * 2), "parallel": 2 * 5 * 2}
    assert cost(program, dim=1, out=1, context=4, width=8).work.layers == runs[kind] + pre + post


def test_a_kind_of_ones_own_can_be_searched_and_no_name_is_taken_twice() -> None:
    def bare(point: Point, steps: int, layer: Any) -> Program:
        return programs.looped(point.loop, steps=steps, inject=point.inject, **layer)

    register_kind("bare", bare)
    try:
        assert SearchSpace(kind=("bare",)).kind == ("bare",)
        with pytest.raises(ValueError, match="'bare' is registered already"):
            register_kind("bare", KINDS["nested"])
        with pytest.raises(ValueError, match="begins with a letter and has no spaces"):
            register_kind("two words", bare)
    finally:
        del KINDS["bare"]


def test_layers_keep_what_the_space_does_not_decide() -> None:
    full = programs.algoformer(heads=2, steps=4, causal=False, norm="rms")
    task, training = tasks.LinearRegression(dim=2, points=4), TrainConfig(window=2)
    around = Experiment(full, task, width=8, training=training)
    found = SearchSettings(experiment=around, space=SearchSpace(width=(8,), heads=(2,), activation=("relu",)))
    first = found.chosen_space.hand_made(around)
    assert first is not None
    loop = found.candidate(first).experiment.program.parts[1]
    assert isinstance(loop, Loop)
    (layers,) = loop.body
    assert (layers.causal, layers.norm, layers.activation) == (False, "rms", "relu")  # type: ignore[union-attr]
