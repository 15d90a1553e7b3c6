"""Every trial costs the same, within the rounding of iterations."""

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from torch import nn

from algoformer import programs
from algoformer.config import Ramp
from algoformer.data import LabelledData, PromptData
from algoformer.depth import Depth
from algoformer.model.cost import cost
from algoformer.search import Candidate, Impossible, SearchSettings, SearchSpace
from algoformer.search.budget import MOST_ITERATIONS, fitting_iterations, input_sizes, training_flops
from algoformer.training import Experiment, TrainConfig
from algoformer.training.config import unroll_at
from algoformer.training.presets import named_recipe
from tests.search.small import SPACE, experiment, settings


def possible(found: SearchSettings, count: int) -> list[Candidate]:
    """Return candidates at random points of the space."""
    draw, candidates, space = random.Random(0), [], found.chosen_space
    while len(candidates) < count:
        params = {name: draw.choice(getattr(space, name)) for name in space.names}
        try:
            candidates.append(found.candidate(space.point(params)))
        except Impossible:
            continue
    return candidates


def step_flops(one: Candidate, step: int) -> int:
    """Count a training step for one prompt again, with `cost` alone."""
    program, training, task = one.experiment.program, one.experiment.training, one.experiment.task
    unroll = unroll_at(program, training, step)
    sizes: dict[str, Any] = {"dim": task.dim, "out": task.out, "context": task.context}
    return cost(program, width=one.experiment.width, unroll=unroll, **sizes).training


def test_flops_are_equal_within_the_rounding_of_iterations() -> None:
    found = settings(tolerance=0.3)
    several = possible(found, 25)
    assert len({one.point.kind for one in several}) == 2
    assert len({one.iterations for one in several}) > 3
    for one in several:
        assert one.flops == step_flops(one, 0)
        assert abs(one.flops / found.budget - 1) <= 0.3
        # no other number of iterations comes nearer
        for other in (one.iterations - 1, one.iterations + 1):
            if other:
                off = found.flops_of(one.point, other) / found.budget
                assert max(off, 1 / off) >= max(one.flops / found.budget, found.budget / one.flops) - 1e-12


def test_curricula_over_iterations_are_counted_step_by_step() -> None:
    base = experiment(40)
    training = replace(base.training, iterations=Ramp(start=1, increment=1, interval=0.1), burn_in=(0, 1))
    ramped = Experiment(base.program, base.data, base.width, training)
    found = SearchSettings(experiment=ramped, space=replace(SPACE, inject=("add",)), rungs=0)
    for one in possible(found, 3):
        every = [step_flops(one, step) for step in range(40)]
        assert len(set(every)) > 1
        assert one.flops == pytest.approx(sum(every) / 40)


def test_a_loop_that_sees_its_input_once_is_trained_through_all_iterations() -> None:
    base = experiment()
    assert base.training.backprop == "window"
    found = possible(settings(), 12)
    backprop = {one.point.inject: one.experiment.training.backprop for one in found}
    assert backprop == {"add": "window", "none": "full"}


def test_segments_are_counted_as_often_as_they_run() -> None:
    base = experiment()
    several = Experiment(base.program, base.data, base.width, replace(base.training, segments=3))
    assert SearchSettings(experiment=several, space=SPACE).budget == 3 * settings().budget


@pytest.mark.parametrize("name", ["depth", "inner_depth"])
def test_drawn_depths_leave_nothing_to_the_budget_and_are_refused(name: str) -> None:
    base = experiment()
    program = programs.nested(heads=2, steps=6)
    training = replace(base.training, **{name: Depth.parse("poisson:4")})
    drawn = Experiment(program, base.data, base.width, training)
    with pytest.raises(ValueError, match=f"a search decides how often loops run; leave out {name}"):
        SearchSettings(experiment=drawn, space=SPACE)


def test_the_default_budget_is_that_of_the_experiment() -> None:
    found = settings()
    first = SPACE.hand_made(found.experiment)
    assert first is not None
    one = found.candidate(first)
    assert one.experiment.program == found.experiment.program
    assert one.flops == found.budget


@pytest.mark.parametrize("budget", [7.0, 30.0, 31.9, 55.0, 1e3])
@pytest.mark.parametrize(("fixed", "each"), [(10.0, 5.0), (0.0, 30.0), (25.0, 0.5)])
def test_iterations_are_those_of_an_exhaustive_search(budget: float, fixed: float, each: float) -> None:
    flops = [fixed + each * steps for steps in range(MOST_ITERATIONS + 1)]
    ratio = [max(one / budget, budget / one) if one else 1e9 for one in flops]
    found = fitting_iterations(lambda steps: flops[steps], budget)
    assert ratio[found] == min(ratio[1:])


def test_validation_and_checkpoints_are_at_the_rungs() -> None:
    one = possible(settings(90), 1)[0]
    training = one.experiment.training
    assert training.validate_every == training.log_every == training.checkpoint_every == 10
    assert settings(90, rungs=0).rung_steps == 90


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flops": 10.0}, "flops=10 is too small: the cheapest program of the space, algoformer 0+1+0"),
        ({"flops": 1e15}, "flops=1e+15 is too large: 1000 iterations"),
        ({"flops": 0.0}, "flops must be a positive number"),
        ({"tolerance": 0.0}, "tolerance is a fraction of the budget"),
        ({"reduction": 1}, "reduction must be at least 2"),
        ({"rungs": 3}, "rungs=3 with reduction=3 do not fit into 9 steps"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        settings(**changes)
    assert message in str(caught.value)


def test_a_point_off_the_budget_says_by_how_much() -> None:
    found = settings(tolerance=0.01)
    reasons = []
    for pre, post, width in itertools.product((0, 1), (0, 1), (6, 8)):
        params = {"kind": "nested", "pre": pre, "loop": 1, "post": post, "heads": 2, "width": width}
        try:
            found.candidate(SPACE.point({**params, "inject": "add", "inner_steps": 2, "lr": 3e-3}))
        except Impossible as error:
            reasons.append(str(error))
    assert reasons
    assert all("of the budget" in reason and "iteration" in reason for reason in reasons)


def test_the_sizes_of_text_are_those_of_its_model() -> None:
    data = LabelledData(corpus="small_topics", vocabulary=300)
    program = programs.looped(heads=1, steps=2, causal=False)
    found = input_sizes(Experiment(program, data, 8, TrainConfig(steps=2, window=1)))
    model = data.build_model(program, 8, TrainConfig(steps=2, window=1))
    assert (found.dim, found.out, found.context) == (0, len(model.labels), model.trunk.context)


def test_text_is_searched_with_the_same_budget() -> None:
    base = Experiment(*named_recipe("labels", "algoformer", "smoke"))
    found = SearchSettings(experiment=base)
    first = found.chosen_space.hand_made(base)
    assert first is not None
    one = found.candidate(first)
    assert one.flops == pytest.approx(found.budget, rel=0.01)
    assert training_flops(base.program, base.width, base.training, found.sizes) == found.budget


class StrangeData(PromptData):
    """Prompts with a model that has no program."""

    def build_model(self, *settings: object) -> Any:
        return nn.Linear(1, 1)


def test_data_with_a_model_of_its_own_is_refused() -> None:
    base = experiment()
    strange = Experiment(base.program, StrangeData(base.task), base.width, base.training)
    with pytest.raises(ValueError, match="'prompts' builds a Linear, whose FLOPs cannot be counted"):
        SearchSettings(experiment=strange, space=SPACE)


def test_a_space_of_one_program_is_a_space() -> None:
    only = SearchSpace(
        kind=("algoformer",), pre=(1,), loop=(1,), post=(1,), heads=(2,), width=(8,), inject=("add",),
        inner_steps=(2,), lr=(3e-3, 3e-3),
    )  # fmt: skip
    found = settings(space=only)
    assert found.candidate(only.point(only.hand_made(found.experiment).params)).iterations == 6  # type: ignore[union-attr]
