"""The measurements behind an identification, each against a value computed another way."""

from __future__ import annotations

import pytest
import torch

from algoformer import AlgoFormer, Prompt, Unroll, algorithms, programs, tasks
from algoformer.evaluation import evaluation_prompts, held_out_seed
from algoformer.insight import filters, identify, layers_as_passes
from algoformer.insight.answers import answer_reader
from algoformer.insight.ceilings import effective_times, operator_ceilings
from algoformer.insight.contexts import Contexts, draw_contexts
from algoformer.insight.curves import matching_of
from algoformer.insight.gates import ADDITIVE, ORDER, ROTATION, SPAN, Gate, measure_gates
from algoformer.insight.influence import foreign_labels, measure_influence
from algoformer.insight.probes import RIDGE, probe
from algoformer.insight.stopping import recommend
from algoformer.insight.trajectory import classify
from algoformer.insight.weights import implied_weights
from tests.insight.controls import FromWeights, from_filter, random_model

TASK = tasks.LinearRegression(dim=4, points=13, noise=0.5)


def contexts(prompts: int = 16, queries: int = 16, task: tasks.Task = TASK) -> Contexts:
    return draw_contexts(task, prompts=prompts, queries=queries, seed=3)


def test_queries_after_one_context_give_the_answers_of_whole_prompts() -> None:
    model = random_model(4, 12).double()
    drawn = contexts(prompts=3, queries=5)
    shared = answer_reader(model, queries=5)(drawn, 4)
    for query in range(5):
        inputs = torch.cat([drawn.inputs, drawn.queries[:, query : query + 1]], dim=1)
        labels = torch.cat([drawn.labels, torch.zeros(3, 1, 1, dtype=torch.float64)], dim=1)
        whole = model(Prompt.of_pairs(inputs, labels).prefix(), Unroll(steps=4)).predictions[:, :, 0]
        assert torch.allclose(shared[:, :, query], whole, atol=1e-12, rtol=0)


def test_implied_weights_of_least_squares_are_its_solution() -> None:
    drawn = contexts()
    found = implied_weights(answer_reader(algorithms.LeastSquares(), queries=16), drawn, 2)
    known = torch.linalg.lstsq(drawn.features, drawn.labels).solution[..., 0]
    assert torch.allclose(found.weights[0], known, atol=1e-9)
    assert float(found.error.max()) < 1e-20
    assert float(found.nonlinear.max()) < 1e-20


def test_features_of_a_representation_are_the_makers_own() -> None:
    task = tasks.RegressionWithRepresentation(dim=4, points=13)
    drawn = contexts(task=task)
    assert torch.allclose(drawn.features, task.phi(drawn.inputs), atol=1e-14, rtol=0)
    solver = algorithms.GradientDescent(step_size=0.2, view=task.problems)
    found = identify(solver, task, steps=5, prompts=32, queries=20)
    assert found.name == "gradient descent"
    assert found.nearest.parameters["η"] == pytest.approx(0.2, rel=0.01)
    assert all(gate.name != ROTATION for gate in found.gates)


def test_gradient_flow_times_of_a_gradient_flow_are_its_times() -> None:
    def flow(spectrum: filters.Spectrum, steps: int) -> torch.Tensor:
        return torch.stack([torch.exp(-(3.0**step) * spectrum.values) for step in range(steps)])

    solver = FromWeights(from_filter(flow))
    found = implied_weights(answer_reader(solver, queries=16), contexts(), 3)
    assert effective_times(found) == pytest.approx([1.0, 3.0, 9.0], rel=0.02)


def test_gates_measure_what_a_method_lacks() -> None:
    drawn = contexts(prompts=32)

    def gates(solver: object) -> dict[str, Gate]:
        read = answer_reader(solver, queries=16)  # type: ignore[arg-type]
        return {gate.name: gate for gate in measure_gates(read, drawn, [0, 1], rotates=True, seed=0)}

    plain = gates(FromWeights(from_filter(filters.gradient_descent, 0.2)))
    assert all(gate.passed for gate in plain.values())
    sweep = gates(FromWeights(filters.kaczmarz))
    assert not sweep[ORDER].passed
    assert not sweep[SPAN].passed
    assert sweep[ADDITIVE].passed
    assert sweep[ROTATION].value == pytest.approx(1.0, abs=1e-9)
    assert not gates(FromWeights(filters.conjugate_gradients))[ADDITIVE].passed


def test_influence_of_a_solver_that_reads_the_first_half_ends_there() -> None:
    def half(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        solved = torch.linalg.pinv(features[:, :6]) @ labels[:, :6, None]
        return solved[..., 0].expand(steps, -1, -1)

    read = answer_reader(FromWeights(half), queries=16)
    found = measure_influence(read, contexts(), steps=1)
    assert found.rests_on(0) <= 6
    assert float(found.by_pass[0, 6:].sum()) < 1e-20
    assert float(found.importance(0)[6:].max()) < 1e-3
    moved, reference = foreign_labels(read, contexts(), steps=1, first=6)
    assert moved < 1e-20
    assert reference > 0.01


def test_influence_of_least_squares_is_that_of_its_pseudo_inverse() -> None:
    read = answer_reader(algorithms.LeastSquares(), queries=16)
    found = measure_influence(read, contexts(), steps=1)
    assert torch.allclose(found.by_pass[0], found.least_squares, rtol=1e-6)


def test_any_linear_map_explains_a_linear_method_and_any_filter_does_not_explain_kaczmarz() -> None:
    read = answer_reader(FromWeights(filters.kaczmarz), queries=16)
    asked: list[int] = []

    def noted(drawn: Contexts, steps: int) -> torch.Tensor:
        asked.append(drawn.query_rows.shape[1])
        return read(drawn, steps)

    shares = operator_ceilings(noted, contexts(), steps=2, problems=3, seed=0)
    assert asked == [16]  # fewer queries would measure weights worse, and a ceiling would lie below a family
    assert min(shares["any linear map"]) == pytest.approx(1.0, abs=1e-6)
    assert max(shares["any filter per prompt"]) < 0.9


def test_states_of_known_sequences_are_classified() -> None:
    time = torch.arange(24.0)
    direction = torch.tensor([1.0, 0.0])
    settles = torch.ones(24, 2)
    cycles = torch.stack([torch.cos(2 * torch.pi * time / 5), torch.sin(2 * torch.pi * time / 5)], dim=1)
    drifts = 10 + 0.1 * time[:, None] * direction
    diverges = 1.5 ** time[:, None] * direction
    wanders = torch.randn(24, 2, generator=torch.Generator().manual_seed(0))
    tail = torch.stack([settles, cycles, drifts, wanders, diverges], dim=1)[:, None]
    classes, periods = classify(tail)
    assert classes == [["settles", "cycles", "drifts", "wanders", "diverges"]]
    assert periods.tolist() == [[0, 5, 0, 0, 0]]


def test_the_recommended_rule_stops_easy_prompts_early() -> None:
    steps = torch.arange(1, 41).double()
    rates = torch.tensor([0.1] * 9 + [0.8]).double()  # nine prompts converge at once, one slowly
    gap = rates[None] ** steps[:, None]
    found = recommend(1 + gap[..., None], gap.square() + 1e-2)
    assert found.rule.startswith("converged:")
    assert found.passes < 8
    assert found.loss <= 0.05


def test_the_recommended_rule_waits_for_every_number_of_an_answer() -> None:
    gap = torch.tensor([0.0, 0.9]).double() ** torch.arange(1, 61)[:, None, None].double()
    answers = (1 + gap).expand(-1, 10, -1)  # the first number is right at once, the second is slow
    found = recommend(answers, gap.square().mean(-1).expand(-1, 10) + 1e-3)
    # the error is at most 5 % above its lowest from the pass on at which 0.9^(2t) / 2 < 0.05e-3
    assert found.passes >= 44


def test_probes_find_what_is_there_and_not_what_is_not() -> None:
    task = tasks.RegressionWithRepresentation(dim=3, points=6)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        program = programs.algoformer(heads=2, steps=2)
        model = AlgoFormer(program, dim=3, out=1, context=task.context, width=32).eval()
    table = probe(model, task, addresses=("pre", "loop[1]", "post"), steps=2, prompts=128)
    assert set(table.scores) == {"input", "features", "answer"}
    assert table.scores["input"][0] > 0.95  # the residual stream still carries the row itself
    assert max(table.scores["answer"]) < 0.3  # random weights do not know the prompt's weights
    found = identify(model, task, steps=3, prompts=24)
    assert found.probes == probe(
        model, task, addresses=("pre", "loop[1]", "loop[2]", "loop[3]", "post"), steps=3, prompts=128
    )
    assert str(found.probes) in str(found)
    assert type(found).from_json(found.to_json()) == found
    assert max(len(line) for line in str(found).splitlines()) <= 80
    assert identify(random_model(3, 6), tasks.LinearRegression(dim=3, points=7), prompts=24).probes is None


def test_too_few_queries_and_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="queries must be at least 6 for 4 features"):
        identify(algorithms.Newton(), TASK, queries=5)
    with pytest.raises(ValueError, match="prompts must be at least 24"):
        identify(algorithms.Newton(), TASK, prompts=8)


def test_tasks_without_labelled_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="Parity has no regression inside its prompts; use `certify`"):
        identify(algorithms.Newton(), tasks.TASKS["parity"]())
    with pytest.raises(ValueError, match=r"problem must lie in 0\.\.5 for ChainOfThought, got 6"):
        identify(algorithms.Newton(), tasks.ChainOfThought(), problem=6)


CHAIN = tasks.ChainOfThought(dim=3, points=13, layers=3)


@pytest.mark.parametrize("problem", [0, 1, 2])
def test_each_layer_of_a_chain_is_a_problem_of_its_own(problem: int) -> None:
    solver = algorithms.GradientDescent(step_size=0.2, view=CHAIN.problems)
    found = identify(solver, CHAIN, steps=4, prompts=24, problem=problem)
    assert found.name == "gradient descent"
    assert found.nearest.parameters["η"] == pytest.approx(0.2, rel=1e-6)
    # in exact arithmetic weights through a leaky ReLU are those before it
    drawn = draw_contexts(CHAIN, prompts=4, queries=24, seed=3, problem=problem)
    exact = implied_weights(answer_reader(algorithms.LeastSquares(view=CHAIN.problems), queries=24), drawn, 1)
    known = torch.linalg.lstsq(drawn.features, drawn.labels).solution  # (batch, feature, out)
    assert torch.allclose(exact.weights[0].unflatten(0, (4, 3)).mT, known, atol=1e-9)


def test_noise_behind_a_link_does_not_swamp_the_weights() -> None:
    def answers(drawn: Contexts, steps: int) -> torch.Tensor:
        weights = torch.linalg.lstsq(drawn.features, drawn.labels).solution
        exact = drawn.link(drawn.query_features @ weights)
        return (exact + 1e-3 * torch.randn(exact.shape, generator=generator).double())[None]

    generator = torch.Generator().manual_seed(0)
    drawn = draw_contexts(CHAIN, prompts=32, queries=48, seed=3)
    # the inverse of the leaky ReLU makes noise on negative answers a hundred times larger
    assert float(implied_weights(answers, drawn, 1).error) < 1e-6


def test_queries_of_several_rows_give_the_answers_of_whole_prompts() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=3, context=CHAIN.context, width=16)
    model = model.eval().double()
    drawn = draw_contexts(CHAIN, prompts=2, queries=5, seed=3, problem=2)
    shared = answer_reader(model, queries=5, query_rows=3)(drawn, 4)
    prompt = tasks.ChainOfThought(dim=3, points=12 + 5, layers=3).sample(
        2, generator=torch.Generator().manual_seed(held_out_seed(3)), dtype=torch.float64
    )
    samples = prompt.rows.unflatten(1, (17, 4))
    for query in range(5):
        rows = torch.cat([samples[:, :12].flatten(1, 2), samples[:, 12 + query, :3]], dim=1)
        asked = Prompt(rows=rows, targets=rows[:, :1], reads=(rows.shape[1] - 1,), parts=4)
        whole = model(asked, Unroll(steps=4)).predictions[:, :, 0]
        assert torch.allclose(shared[:, :, query], whole, atol=1e-12, rtol=0)


def test_each_layer_is_read_by_its_own_ridge_regression() -> None:
    task = tasks.LinearRegression(dim=2, points=5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(programs.standard(layers=3, heads=2), dim=2, out=1, context=task.context, width=16)
    solver = layers_as_passes(model.eval().requires_grad_(False), task, prompts=64, seed=1)
    prompt = evaluation_prompts(task, count=64, seed=1)
    late = prompt.points // 2
    targets = prompt.targets[:, late:].double()
    answers = solver(prompt, Unroll(steps=3)).predictions[:, :, late:].double()
    for layer, address in enumerate(solver.addresses):
        state = model(prompt, Unroll(steps=1, keep=(address,))).states[address][:, list(prompt.reads)]
        design = torch.cat([state, torch.ones_like(state[..., :1])], dim=-1)[:, late:].flatten(0, 1).double()
        # ridge regression as least squares with one more row for each weight
        strength = (RIDGE * design.square().sum(0).mean()).sqrt() * torch.eye(17, dtype=torch.float64)
        larger = torch.cat([design, strength])
        weights = torch.linalg.pinv(larger) @ torch.nn.functional.pad(targets.flatten(0, 1), (0, 0, 0, 17))
        assert torch.allclose(answers[layer].flatten(0, 1), design @ weights, atol=1e-3)


def test_layers_as_passes_are_refused_for_a_loop_and_beyond_the_last_layer() -> None:
    task = tasks.LinearRegression(dim=2, points=5)
    with pytest.raises(ValueError, match="has a loop"):
        layers_as_passes(random_model(2, 4, width=16), task)
    model = AlgoFormer(programs.standard(layers=2, heads=2), dim=2, out=1, context=task.context, width=16)
    solver = layers_as_passes(model.eval(), task)
    with pytest.raises(ValueError, match="steps must be at most 2"):
        solver(evaluation_prompts(task, count=2), Unroll(steps=3))


def test_steps_beyond_those_that_are_tried_are_left_out() -> None:
    newton = FromWeights(from_filter(filters.newton_from_gram, 1 / 16))
    found = implied_weights(answer_reader(newton, queries=16), contexts(), 20)
    descent = matching_of(found)["gradient descent, 1.8/λmax"]
    assert 10 < len(descent) < 20
    assert max(descent) < 256


def test_gradient_flow_times_are_those_of_described_passes_and_0_at_least() -> None:
    def away(spectrum: filters.Spectrum, steps: int) -> torch.Tensor:
        return torch.stack([torch.full_like(spectrum.values, 2.0), torch.zeros_like(spectrum.values)])[:steps]

    found = identify(FromWeights(from_filter(away)), TASK, steps=2, prompts=24)
    assert found.passes == (1, 1)
    assert found.pace == (0.0,)
