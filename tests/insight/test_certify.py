"""A depth certificate calls known cases right."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from algoformer import AlgoFormer, Layers, Loop, Program, Prompt, Trace, Unroll, algorithms, tasks, theory
from algoformer.evaluation import evaluation_prompts
from algoformer.insight import DepthCertificate, certify, filters
from algoformer.insight.growth import disturbance_growth, token_radii
from algoformer.insight.instrument import loop_map
from algoformer.language.classifier import TextClassifier
from tests.insight.controls import FromWeights, from_filter, random_model

DIM, EXAMPLES = 4, 12
TASK = tasks.LinearRegression(dim=DIM, points=EXAMPLES + 1)


def eigenvalues(count: int = 6) -> torch.Tensor:
    prompt = evaluation_prompts(TASK, count=8).prefix()
    inputs = prompt.part(0)[:count, :EXAMPLES].double()
    return torch.linalg.eigvalsh(inputs.mT @ inputs / EXAMPLES)


def certified(model: AlgoFormer, **options: object) -> DepthCertificate:
    settings: dict[str, object] = {"prompts": 8, "reach": 10}
    return certify(model, TASK, **(settings | options))  # type: ignore[arg-type]


def test_growth_of_gradient_descent_is_its_slowest_factor() -> None:
    model = theory.gradient_descent(dim=DIM, examples=EXAMPLES, step_size=0.3)
    states = certified(model).states
    assert states is not None
    known = (1 - 0.3 * eigenvalues()).abs().amax(1)
    assert (torch.tensor(states.predicted).double() - known).abs().max() < 0.005
    observed = [one for one in states.observed if one is not None]
    assert len(observed) == 6
    assert (torch.tensor(observed).double() - known).abs().max() < 0.02


def test_growth_of_heavy_ball_is_the_modulus_of_its_complex_pair() -> None:
    step, momentum = 0.3, 0.5
    model = theory.heavy_ball(dim=DIM, examples=EXAMPLES, step_size=step, momentum=momentum)
    companion = torch.zeros(6, DIM, 2, 2, dtype=torch.float64)
    companion[..., 0, 0], companion[..., 0, 1] = 1 + momentum - step * eigenvalues(), -momentum
    companion[..., 1, 0] = 1
    known = torch.linalg.eigvals(companion).abs().flatten(1).amax(1)
    states = certified(model).states
    assert states is not None
    assert (torch.tensor(states.predicted).double() - known).abs().max() < 0.001


def test_newtons_iteration_has_no_growth_and_holds() -> None:
    found = certified(theory.newton(dim=DIM, examples=EXAMPLES, alpha=1 / (4 * EXAMPLES) ** 2))
    assert found.answers == "hold"
    assert found.states is not None
    assert max(found.states.predicted) == 0.0
    assert found.states.prompts["settles"] == 8


def test_gradient_descent_beyond_its_trained_depth_still_improves() -> None:
    found = certified(theory.gradient_descent(dim=DIM, examples=EXAMPLES, step_size=0.1))
    assert found.answers == "improve"
    assert found.best_depth == found.far


def test_a_step_size_that_is_too_large_diverges() -> None:
    model = theory.gradient_descent(dim=DIM, examples=EXAMPLES, step_size=1.5)
    found = certified(model)
    assert found.answers == "diverge"
    assert found.best_depth == 1
    assert found.states is not None
    known = (1 - 1.5 * eigenvalues()).abs().amax(1)
    grown = torch.tensor(found.states.predicted).double()
    assert ((grown > 1) == (known > 1)).all()
    assert DepthCertificate.from_json(found.to_json()) == found


def test_rounding_doubles_in_newtons_iteration_on_rank_deficient_prompts() -> None:
    short = tasks.LinearRegression(dim=DIM, points=3)
    model = theory.newton(dim=DIM, examples=2, alpha=1 / 16**2)
    found = certify(model, short, prompts=8, reach=20, derivatives=False)
    assert found.answers == "diverge"
    assert found.best_depth < 60


def test_a_loop_without_norms_diverges() -> None:
    body = Layers(1, heads=1, norm=False, final_norm=False, positions=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(Program(Loop(body, steps=5)), dim=DIM, out=1, context=26, width=8).eval()
    with torch.no_grad():
        model.body.parts[0].body.parts[0].layers[0].attention.output.weight.add_(3 * torch.eye(8))
    found = certified(model, derivatives=False, reach=50)
    assert found.answers == "diverge"
    assert found.states is not None
    assert found.states.prompts["diverges"] == 8


def test_random_weights_settle_without_having_learned() -> None:
    found = certified(random_model(DIM, EXAMPLES, width=16), derivatives=False)
    assert found.answers == "hold"
    assert found.states is not None
    assert found.states.prompts["settles"] == 8
    assert found.error[-1] > 0.1


def test_a_solver_that_forgets_grows_by_the_known_factor() -> None:
    def weights(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        # half of the weights are missing at pass 20, and √1.5 times that from pass 40 on
        solved = (torch.linalg.pinv(features) @ labels[..., None])[..., 0]
        missing = torch.full((steps, 1, 1), 0.5, dtype=torch.float64)
        missing[39:] *= 1.5**0.5
        return (1 - missing) * solved

    found = certify(FromWeights(weights), TASK, prompts=8, reach=10)
    assert found.answers == "grow"
    assert found.ratio == pytest.approx(1.5, rel=1e-6)
    assert found.states is None


@dataclass(frozen=True)
class Unsure:
    """A solver of puzzles that gives the right class of one question another logit from pass 40 on."""

    question: int
    logits: tuple[float, float]

    def __call__(self, prompt: Prompt, unroll: Unroll) -> Trace:
        before, after = self.logits
        logits = (50.0 * prompt.targets).repeat(unroll.steps, 1, 1, 1)
        right = prompt.targets[:, self.question]
        logits[:39, :, self.question], logits[39:, :, self.question] = before * right, after * right
        return Trace(predictions=logits[unroll.first_step - 1 :], first_step=unroll.first_step)


@pytest.mark.parametrize("question", [0, 7])
@pytest.mark.parametrize(("logits", "kind"), [((2.0, 0.0), "grow"), ((0.0, 2.0), "improve")])
def test_a_puzzle_is_certified_by_the_probabilities_of_all_its_answers(
    question: int, logits: tuple[float, float], kind: str
) -> None:
    def brier(logit: float) -> float:
        right = math.exp(logit) / (math.exp(logit) + 3)  # beside three other digits of equal logits
        return ((1 - right) ** 2 + (1 - right) ** 2 / 3) / 16  # one of 16 cells

    found = certify(Unsure(question, logits), tasks.Sudoku(), prompts=8, reach=5, trained=20)
    assert found.answers == kind
    assert found.error_at(20) == pytest.approx(brier(logits[0]))
    assert found.error_at(100) == pytest.approx(brier(logits[1]))
    assert found.ratio == pytest.approx(brier(logits[1]) / brier(logits[0]))
    assert found.stopping.rule == ("fixed:1" if kind == "grow" else "fixed:40")
    assert found.setting["error"] == "Brier score"


def test_more_puzzles_than_prompts_of_regression_are_certified_by_default() -> None:
    sure = Unsure(0, (50.0, 50.0))
    assert certify(sure, tasks.Sudoku(), reach=2, trained=20).setting["prompts"] == 48
    assert certify(algorithms.Newton(), TASK, reach=2, trained=20).setting["prompts"] == 12


def test_classes_do_not_diverge_with_their_logits() -> None:
    def ever_surer(prompt: Prompt, unroll: Unroll) -> Trace:
        passes = torch.arange(unroll.first_step, unroll.steps + 1).double()[:, None, None, None]
        return Trace(predictions=1000 * passes * prompt.targets, first_step=unroll.first_step)

    found = certify(ever_surer, tasks.Sudoku(), prompts=8, reach=5, trained=20)
    assert found.answers == "hold"
    assert max(found.error) < 1e-12


def forgetting(size: float, first: tuple[float, float]) -> FromWeights:
    """A solver without a tenth of the weights, from pass 40 on `size` times that; `first` of one prompt."""

    def weights(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        solved = (torch.linalg.pinv(features) @ labels[..., None])[..., 0]
        missing = torch.full((steps, len(features), 1), 0.1, dtype=torch.float64)
        missing[39:] *= size
        missing[:39, 0], missing[39:, 0] = first
        return (1 - missing) * solved

    return FromWeights(weights)


def test_one_hard_prompt_does_not_hide_that_the_others_grow() -> None:
    found = certify(forgetting(1.5, (3.0, 3.5)), TASK, prompts=32, reach=10)
    assert found.answers == "grow"
    assert found.typical is not None
    assert found.typical[0] == pytest.approx((1.5**62 * (3.5 / 3) ** 2) ** (1 / 32), rel=1e-6)


def test_an_error_that_one_prompt_decides_is_unclear() -> None:
    found = certify(forgetting(0.5, (0.1, 1.0)), TASK, prompts=8, reach=10)
    assert found.answers == "unclear"
    assert "too few prompts" in found.sentence
    assert found.typical is not None
    assert found.typical[0] == pytest.approx((0.25**7 * 100) ** (1 / 8), rel=1e-3)


@pytest.mark.parametrize(("size", "first"), [(4.0, (10.0, 1.0)), (0.25, (10.0, 12.0))])
def test_the_band_of_a_ratio_holds_what_happens_without_the_prompt_of_most_error(
    size: float, first: tuple[float, float]
) -> None:
    # more than 0.99 of the error at pass 20 is that of one prompt in 12, which a third of the resamples lack
    found = certify(forgetting(size, first), TASK, prompts=12, reach=10)
    low, high = found.ratio_band
    without, of_the_prompt = size**2, (first[1] / first[0]) ** 2
    assert low < 2 * min(without, of_the_prompt)
    assert high > max(without, of_the_prompt) / 2
    assert found.answers not in ("grow", "improve")


def descent_errors(
    task: tasks.Task, step: float, depths: tuple[int, ...], count: int, seed: int
) -> list[float]:
    """Errors of gradient descent on the last question, by its closed form (1 - ηλ)^t in the eigenbasis."""
    prompt = evaluation_prompts(task, count=count, seed=seed).prefix()
    samples = prompt.reads[-1] // 2
    inputs, labels = prompt.part(0)[:, :samples].double(), prompt.part(1)[:, :samples, :1].double()
    assert prompt.clean is not None
    values, vectors = torch.linalg.eigh(inputs.mT @ inputs / samples)
    solved = vectors.mT @ (torch.linalg.pinv(inputs) @ labels)
    asked = prompt.part(0)[:, samples].double()
    errors = []
    for depth in depths:
        weights = vectors @ ((1 - (1 - step * values) ** depth)[..., None] * solved)
        gap = (weights[..., 0] * asked).sum(-1) - prompt.clean[:, -1, 0].double()
        errors.append(float(gap.square().mean() / task.scale))
    return errors


def test_early_stopping_undone_grows_by_the_known_factor() -> None:
    # with noisy labels, gradient descent stopped after 10 steps beats least squares, where it ends
    task = tasks.LinearRegression(dim=DIM, points=9, noise=1.25)
    model = theory.gradient_descent(dim=DIM, examples=8, step_size=0.3, steps=10)
    found = certify(model, task, prompts=64, reach=20, derivatives=False)
    early, late = descent_errors(task, 0.3, (10, 200), count=64, seed=0)
    assert found.answers == "grow"
    assert found.ratio == pytest.approx(late / early, rel=1e-3)
    assert found.ratio == pytest.approx(1.5, abs=0.1)
    assert found.best_depth < 20


def test_a_step_size_trained_at_one_pass_loses_its_answer_beyond() -> None:
    task = tasks.LinearRegression(dim=DIM, points=9)
    generator = torch.Generator().manual_seed(0)
    step = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([step], lr=0.02)
    for _ in range(100):  # least error after one pass, whatever comes later
        prompt = task.sample(64, generator=generator, dtype=torch.float64).prefix()
        inputs, labels = prompt.part(0)[:, :8], prompt.part(1)[:, :8, :1]
        weights = step * inputs.mT @ labels / 8
        loss = ((weights[..., 0] * prompt.part(0)[:, 8]).sum(-1) - prompt.targets[:, -1, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    learned = float(step.detach())
    model = theory.gradient_descent(dim=DIM, examples=8, step_size=learned, steps=1)
    found = certify(model, task, prompts=64, reach=50, derivatives=False)
    early, late = descent_errors(task, learned, (1, 50), count=512, seed=3)  # other prompts
    assert late > 1.2 * early
    assert found.answers in ("grow", "diverge")


def test_an_alternating_solver_swings() -> None:
    def weights(features: torch.Tensor, labels: torch.Tensor, steps: int) -> torch.Tensor:
        solved = (torch.linalg.pinv(features) @ labels[..., None])[..., 0]
        sign = 1 - 2 * (torch.arange(steps) % 2).double()
        return (1 + 0.1 * sign[:, None, None]) * solved

    found = certify(FromWeights(weights), TASK, prompts=8, reach=10)
    assert found.answers == "swing"
    assert found.swing == pytest.approx(24 / 23, abs=0.05)  # an alternation of ±0.1 around an error of 0.1


def test_the_spectrum_by_token_is_that_of_the_whole_jacobian() -> None:
    model = random_model(DIM, 2, width=16)
    prompt = evaluation_prompts(tasks.LinearRegression(dim=DIM, points=3), count=1).prefix()
    loop = loop_map(model, prompt, dtype=torch.float64)
    _, state = disturbance_growth(loop, burn_in=5, window=4)
    size = state[0].numel()
    nudge = 1e-6 * torch.eye(size, dtype=torch.float64).unflatten(1, state.shape[1:])
    columns = [(loop.step(state + one) - loop.step(state - one)).flatten() / 2e-6 for one in nudge]
    whole = torch.linalg.eigvals(torch.stack(columns, dim=1)).abs().max()
    assert max(token_radii(loop, state)) == pytest.approx(float(whole), rel=1e-6)


def test_the_recommended_rule_costs_less_and_loses_little() -> None:
    solver = FromWeights(from_filter(filters.newton_from_gram, 1 / 16))
    found = certify(solver, TASK, prompts=16, reach=10)
    assert found.answers == "hold"
    assert found.stopping.loss <= 0.05
    assert found.stopping.passes <= 20
    assert found.steady_from is not None
    assert found.steady_from <= 20


def test_a_short_run_of_a_solver_that_rests_is_at_rest() -> None:
    solver = FromWeights(from_filter(filters.ridge, 0.1))  # the same answer after every pass
    assert certify(solver, TASK, prompts=8, reach=2, trained=4).steady_from == 1


def test_too_few_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="prompts must be at least 8"):
        certify(algorithms.Newton(), TASK, prompts=4)


def test_a_model_without_a_loop_is_refused() -> None:
    model = AlgoFormer(Program(Layers(1, heads=2)), dim=DIM, out=1, context=26, width=8)
    with pytest.raises(ValueError, match="no loop"):
        certify(model, TASK, prompts=8)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_answers_that_are_never_finite_diverge(value: float) -> None:
    def broken(prompt: Prompt, unroll: Unroll) -> Trace:
        answers = torch.full((unroll.length, *prompt.targets.shape), value)
        return Trace(predictions=answers, first_step=unroll.first_step)

    found = certify(broken, TASK, prompts=8, reach=2)
    assert found.answers == "diverge"
    assert found.stopping.rule == "fixed:1"
    assert "answers diverge: error × inf" in str(found)


def test_a_causal_loop_with_adaptive_computation_time_has_a_spectrum() -> None:
    program = Program(Loop(Layers(1, heads=2), steps=3, halt="act"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AlgoFormer(program, dim=DIM, out=1, context=TASK.context, width=8).eval()
    states = certified(model, reach=2).states
    assert states is not None
    assert len(states.radii) == len(evaluation_prompts(TASK, count=1).prefix().rows[0])


@pytest.mark.parametrize("trained", [0, -3])
def test_a_trained_depth_below_one_pass_is_refused(trained: int) -> None:
    with pytest.raises(
        ValueError, match=f"trained must be a whole number of passes, at least 1, got {trained}"
    ):
        certify(algorithms.Newton(), TASK, trained=trained)


def test_a_model_of_text_is_refused() -> None:
    model = TextClassifier(
        Loop(Layers(1, heads=2), steps=2), vocabulary=9, context=8, width=8, labels=("a", "b")
    )
    with pytest.raises(
        ValueError, match=r"solver must answer prompts, got TextClassifier.*certify_probabilities"
    ):
        certify(model, TASK)  # type: ignore[arg-type]
