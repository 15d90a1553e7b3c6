"""Identification on series: answers to one question, and tests that change the series."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from algoformer import AlgoFormer, Prompt, Trace, Unroll, algorithms, programs, tasks
from algoformer.evaluation import held_out_seed
from algoformer.insight import Identification, filters, identify, layers_as_passes
from algoformer.insight.answered import Answered, answers_to
from algoformer.insight.ceilings import best_filter, effective_times
from algoformer.insight.families import FAMILIES
from algoformer.insight.fit import fit_family, residual_parts
from algoformer.insight.gates import ORDER, SHUFFLED, TURNED, Gate
from algoformer.insight.on_series import foreign_states, influence_of_states, series_gates
from algoformer.insight.series import draw_series, series_reader
from tests.insight.controls import FromWeights, from_filter, outcome
from tests.insight.series_controls import CONTROLS, Setting, truth_of

TURNING = tasks.AutoregressiveWithRepresentation(dim=3, points=14, order=1, slope=1.0, noise=0.5, bound=4.0)
WINDOWED = tasks.AutoregressiveWithRepresentation(dim=3, points=17, order=2, noise=0.5, bound=4.0)
FAMILY = {family.name: family for family in FAMILIES}

QUICK = (
    *("GD 0.2", "GD optimal", "heavy ball 0.2 0.5", "Newton fixed", "Newton", "ridge", "least squares"),
    *("averaging", "zero", "conjugate gradients", "Kaczmarz", "GD++", "GD, two steps a pass"),
    *("GD 0.2 + 10 % noise", "Newton from αI + 50 % noise"),
)
"""Controls for every run of the tests; results/insight/series-controls.json has all of them."""


def setting(task: tasks.AutoregressiveWithRepresentation, prompts: int = 96) -> Setting:
    return Setting(task, unit=0.1, prompts=prompts)


def identified(name: str, task: tasks.AutoregressiveWithRepresentation) -> Identification:
    # fewer prompts tell a method that runs exactly as well
    chosen = setting(task, 96 if "noise" in name or CONTROLS[name].null else 48)
    solver = CONTROLS[name].build(chosen)
    return identify(solver, task, steps=6, prompts=chosen.prompts)


@pytest.mark.parametrize("name", QUICK)
def test_textbook_methods_on_series_are_named_with_their_parameters(name: str) -> None:
    task = WINDOWED if len(name) % 2 else TURNING
    found = identified(name, task)
    chosen = setting(task)
    right, off = outcome(truth_of(CONTROLS[name], chosen), found, chosen.examples)
    assert right, str(found)
    assert off < (0.05 if "noise" in name else 1e-6)


@pytest.mark.parametrize("name", [name for name, control in CONTROLS.items() if control.null])
def test_no_solver_of_series_outside_the_families_is_named(name: str) -> None:
    found = identified(name, WINDOWED)
    assert found.name is None, str(found)


@pytest.mark.theorem
def test_gradient_descent_on_a_series_by_theorem_3_2_is_named() -> None:
    found = identified("built GD", WINDOWED)
    assert found.name == "gradient descent"
    assert found.nearest.parameters["η"] == pytest.approx(2.0, rel=1e-5)


def test_the_exact_solutions_are_named_and_the_oracle_is_the_reference() -> None:
    oracle = algorithms.build_solver("oracle", view=WINDOWED.problems, noise=WINDOWED.noise)
    found = identify(oracle, WINDOWED, steps=3, prompts=24)
    assert (found.status, found.name) == ("exact ridge regression", "ridge")
    assert found.sentence == "exact ridge regression with ρ = 0.01786 from the first pass on."
    assert found.reference == f"ridge regression with ρ = {0.25 / 14:.4g}"
    exact = identify(algorithms.LeastSquares(view=WINDOWED.problems), WINDOWED, steps=3, prompts=24)
    assert exact.sentence == "exact least squares from the first pass on."


def test_without_noise_the_reference_is_least_squares() -> None:
    task = replace(TURNING, noise=0.0)
    data = answers_to(
        series_reader(algorithms.Zero(view=task.problems)), draw_series(task, count=8, seed=0), 2
    )
    exact = algorithms.LeastSquares(view=task.problems)
    known = series_reader(exact)(draw_series(task, count=8, seed=0), 1)
    assert data.reference_name == "least squares"
    assert torch.allclose(data.solved[:, 0], known.flatten(), atol=1e-9)


def answered(solver: object, task: tasks.Task = WINDOWED, count: int = 24, steps: int = 3) -> Answered:
    return answers_to(series_reader(solver), draw_series(task, count=count, seed=3), steps)  # type: ignore[arg-type]


def test_the_question_of_a_series_is_that_of_the_whole_prompt() -> None:
    drawn = draw_series(WINDOWED, count=5, seed=3)
    prompt = WINDOWED.sample(
        5, generator=torch.Generator().manual_seed(held_out_seed(3)), dtype=torch.float64
    )
    solver = algorithms.GradientDescent(step_size=1.5, view=WINDOWED.problems)
    whole = solver(prompt, Unroll(steps=3)).predictions[:, :, -1]
    assert torch.allclose(series_reader(solver)(drawn, 3), whole, atol=1e-12)
    assert (drawn.window, drawn.examples) == (2, 14)
    # the features of an example and its label, read from the rows by hand
    assert torch.allclose(drawn.features[:, 4], WINDOWED.phi(prompt.rows[:, 4:6].flatten(1)))
    assert torch.equal(drawn.labels[:, 4], prompt.rows[:, 6])
    assert torch.allclose(drawn.query, WINDOWED.phi(prompt.rows[:, -2:].flatten(1)))


def test_what_a_filter_leaves_is_the_difference_of_answers() -> None:
    rule = from_filter(filters.proximal_point, 0.03)
    data = answered(FromWeights(rule, WINDOWED.problems))
    predicted = data.filtered(filters.proximal_point(filters.Spectrum.of(data.eigenvalues), 3, 0.03))
    assert torch.allclose(predicted, data.left_parts, atol=1e-9)
    steps = residual_parts(FAMILY["conjugate gradients"], data, 3)
    other = answered(FromWeights(filters.conjugate_gradients, WINDOWED.problems))
    assert torch.allclose(steps[1:], other.left_parts, atol=1e-9)
    assert torch.allclose(steps[0], data.solved, atol=1e-12)


def test_moments_of_groups_are_those_of_a_filter_that_is_constant_on_them() -> None:
    data = answered(algorithms.GradientDescent(step_size=1.0, view=WINDOWED.problems))
    generator = torch.Generator().manual_seed(0)
    group = torch.randint(4, data.eigenvalues.shape, generator=generator)
    ratio = torch.randn(4, generator=generator).double()
    weight, cross = data.moments(group, 4)
    reference = data.reference(data.eigenvalues)
    predicted = data.filtered(reference + (1 - reference) * ratio[group])
    assert float(ratio @ weight @ ratio) == pytest.approx(float(predicted.square().sum()))
    assert (cross @ ratio).tolist() == pytest.approx((predicted * data.left_parts).sum((1, 2)).tolist())


def test_any_filter_and_flow_times_are_found_from_answers() -> None:
    def flow(spectrum: filters.Spectrum, steps: int) -> Tensor:
        return torch.stack([torch.exp(-(3.0**step) * spectrum.values) for step in range(steps)])

    data = answered(FromWeights(from_filter(flow), TURNING.problems), TURNING, count=96)
    assert effective_times(data) == pytest.approx([1.0, 3.0, 9.0], rel=0.02)
    places = data.eigenvalues.flatten().quantile(torch.tensor([0.2, 0.5, 0.8]).double())
    spectrum = filters.Spectrum(places, places, places)
    assert torch.allclose(best_filter(data)(places), flow(spectrum, 3), atol=0.01)


def test_parameters_are_searched_in_units_of_the_features() -> None:
    solver = algorithms.GradientDescent(step_size=300.0, view=WINDOWED.problems)
    small = replace(answered(solver, count=48), unit=1.0)
    series = draw_series(WINDOWED, count=48, seed=3)
    tiny = answers_to(series_reader(solver), series.with_states(series.states / 20), 3)
    assert tiny.unit == pytest.approx(answered(solver, count=48).unit / 400)
    found = fit_family(FAMILY["gradient descent"], tiny, tiny, [0, 1, 2])
    assert found.parameters[0] == pytest.approx(300.0, rel=1e-6)
    assert small.unit == 1.0


def test_two_series_with_a_recurring_window_have_the_same_examples_in_another_order() -> None:
    for task in (TURNING, WINDOWED, tasks.AutoregressiveWithRepresentation(dim=2, points=13, order=3)):
        drawn = draw_series(task, count=4, seed=1)
        pair = drawn.with_recurrence()
        assert pair is not None
        assert pair[0].states.shape == drawn.states.shape
        assert not torch.equal(pair[0].states, pair[1].states)
        assert torch.equal(pair[0].query, pair[1].query)
        points = [torch.cat([one.features, one.labels], dim=-1) for one in pair]
        for one, other in zip(*points, strict=True):
            gaps = (one[:, None] - other[None]).abs().amax(-1)
            assert bool((gaps.amin(1) < 1e-12).all())  # each example of the one is an example of the other
            assert bool((gaps.amin(0) < 1e-12).all())
    short = tasks.AutoregressiveWithRepresentation(dim=2, points=12, order=3)
    assert draw_series(short, count=4, seed=1).with_recurrence() is None


def gates(solver: object, task: tasks.AutoregressiveWithRepresentation) -> dict[str, Gate]:
    data = answered(solver, task, count=64)
    best = fit_family(FAMILY["gradient descent"], data, data, [0, 1])
    read = series_reader(solver)  # type: ignore[arg-type]
    found = series_gates(read, draw_series(task, count=64, seed=3), [0, 1], best, seed=0)
    return {gate.name: gate for gate in found}


def test_gates_of_a_series_pass_for_gradient_descent_and_find_what_others_lack() -> None:
    descent = gates(algorithms.GradientDescent(step_size=1.0, view=TURNING.problems), TURNING)
    assert descent.keys() == {ORDER, TURNED, SHUFFLED}
    assert all(gate.value == pytest.approx(1.0, abs=1e-6) for gate in descent.values())
    sweep = gates(FromWeights(filters.kaczmarz, TURNING.problems), TURNING)
    assert not sweep[ORDER].passed
    assert sweep[TURNED].value == pytest.approx(1.0, abs=1e-6)
    assert not sweep[SHUFFLED].passed
    mixing = gates(FromWeights(filters.conjugate_gradients, TURNING.problems), TURNING)
    assert mixing[ORDER].passed
    assert not mixing[TURNED].passed  # labels are mixed, too, and it is not additive in them
    # leaky features do not turn with the series
    assert TURNED not in gates(algorithms.GradientDescent(step_size=1.0, view=WINDOWED.problems), WINDOWED)


def test_a_method_that_is_right_on_the_task_alone_fails_on_shuffled_series() -> None:
    """A solver that finds out whether a series is one of the task, and descends only there."""
    plain = algorithms.GradientDescent(step_size=1.0, view=TURNING.problems)
    natural = draw_series(TURNING, count=96, seed=0).states

    def knowing(prompt: Prompt, unroll: Unroll) -> Trace:
        found = plain(prompt, unroll)
        known = (prompt.rows[:, None] == natural[None]).flatten(2).all(-1).any(1)
        return replace(found, predictions=found.predictions.where(known[None, :, None, None], 0.0))

    found = identify(knowing, TURNING, steps=3, prompts=96)
    assert found.nearest.share == pytest.approx(1.0)
    assert found.name is None
    assert SHUFFLED in {gate.name for gate in found.failed_gates}
    assert identify(plain, TURNING, steps=3, prompts=96).name == "gradient descent"


def test_influence_of_states_ends_where_a_solver_stops_reading() -> None:
    def early(prompt: Prompt, unroll: Unroll) -> Trace:
        found = prompt.rows[:, :4].sum(1)[None, :, None].expand(unroll.steps, -1, -1, -1)
        return Trace(predictions=found)

    drawn = draw_series(WINDOWED, count=16, seed=0)
    found = influence_of_states(series_reader(early), drawn, steps=1, seed=0)
    assert found.by_pass.shape == (1, 14)  # 16 states, two of them the question's window
    assert found.rests_on(0) == 4
    assert found.by_pass[0, :4].mean() == pytest.approx(1.0, rel=0.3)  # the derivative of a sum
    assert float(found.by_pass[0, 4:].max()) < 1e-20
    moved, reference = foreign_states(series_reader(early), drawn, steps=1)
    assert moved < 1e-20
    assert reference > 0.01


def test_influence_of_the_oracle_is_that_of_the_reference() -> None:
    oracle = algorithms.Ridge(strength=WINDOWED.noise**2, view=WINDOWED.problems)
    drawn = draw_series(WINDOWED, count=8, seed=0)
    found = influence_of_states(series_reader(oracle), drawn, steps=1, seed=0)
    assert torch.allclose(found.by_pass[0], found.least_squares, rtol=1e-6)


def test_the_result_says_what_cannot_be_tested_and_can_be_read_back() -> None:
    found = identified("GD 0.2", WINDOWED)
    assert found.untested == (
        "linear in the query",
        "additive in the labels",
        "rotation of the series",
        "scale of labels",
        "labels off the span",
    )
    assert found.sentence.endswith(f"cannot be tested on a series: {', '.join(found.untested)}.")
    assert set(found.ceilings) == {"any filter"}
    assert "any linear map" in str(found)
    assert found.refit is None
    assert Identification.from_json(found.to_json()) == found
    assert max(len(line) for line in str(found).splitlines()) <= 80


@pytest.mark.parametrize(
    "program", [programs.algoformer(heads=2, steps=4), programs.looped(heads=2, steps=4)]
)
def test_a_model_of_series_is_measured_in_its_own_precision(program: object) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(program, dim=3, out=3, context=WINDOWED.context, width=16).eval()  # type: ignore[arg-type]
    found = identify(model, WINDOWED, steps=3, prompts=24)
    assert found.name is None
    assert found.probes is not None
    assert found.setting["examples"] == 14
    assert ORDER in {gate.name for gate in found.gates}


def test_the_layers_of_a_transformer_on_series_are_read_as_passes() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        program = programs.standard(layers=3, heads=2)
        model = AlgoFormer(program, dim=3, out=3, context=WINDOWED.context, width=16).eval()
    solver = layers_as_passes(model, WINDOWED, prompts=64)
    found = identify(solver, WINDOWED, steps=solver.layers, prompts=24)
    assert len(found.error) == 3


def test_queries_of_a_series_are_refused() -> None:
    with pytest.raises(ValueError, match="queries must be None for a series, which asks one question; got 8"):
        identify(algorithms.Newton(view=WINDOWED.problems), WINDOWED, queries=8)
    with pytest.raises(ValueError, match=r"problem must lie in 0\.\.0 for AutoregressiveWithRepresentation"):
        identify(algorithms.Newton(view=WINDOWED.problems), WINDOWED, problem=1)
