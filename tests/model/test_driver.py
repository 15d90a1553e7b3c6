import itertools

import pytest
import torch
from torch import Tensor

from algoformer.model import AlgoFormer, Converged, Layers, Loop, Parallel, Program
from algoformer.model import presets as programs
from algoformer.prompt import Prompt
from algoformer.trace import Unroll


def prompt(batch: int = 6) -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    # prompts of very different size, so that they stop at different times
    size = torch.logspace(-3, 1, batch, dtype=torch.float64)[:, None, None]
    xs = size * torch.randn(batch, 3, 4, generator=numbers, dtype=torch.float64)
    return Prompt.of_pairs(xs, torch.randn(batch, 3, 2, generator=numbers, dtype=torch.float64))


def model(program: Program | None = None) -> AlgoFormer:
    torch.manual_seed(0)
    program = program or programs.algoformer(heads=2, norm=False, final_norm=False, inject="gate")
    built = AlgoFormer(program, dim=4, out=2, context=8, width=8).double()
    for name, parameter in built.named_parameters():
        if name.endswith("keep_gate"):
            parameter.data.fill_(-1.0)  # a contraction, so that there is something to converge to
    return built


def by_looking(predictions: Tensor, tolerance: float) -> tuple[list[int], Tensor]:
    """The first small change in the full unroll, prompt by prompt."""
    iterations, answers = [], []
    for one in predictions.unbind(1):
        moves = [(now - last).abs().max().item() for last, now in itertools.pairwise(one)]
        stop = next((step for step, move in enumerate(moves, start=2) if move <= tolerance), len(one))
        iterations.append(stop)
        answers.append(one[stop - 1])
    return iterations, torch.stack(answers)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("max_steps", [1, 2, 30])
def test_each_prompt_stops_at_its_first_small_change(tolerance: float, max_steps: int) -> None:
    built = model()
    full = built(prompt(), Unroll(steps=max_steps)).predictions
    iterations, answers = by_looking(full, tolerance)
    trace = built(prompt(), stop=Converged(tolerance, max_steps))
    assert trace.iterations is not None
    if tolerance:  # at zero, rounding of another batch size decides
        assert trace.iterations.tolist() == iterations
    torch.testing.assert_close(trace.final, answers, rtol=0, atol=1e-10)
    assert trace.predictions.shape == (1, 6, 3, 2)
    assert trace.first_step == trace.iterations.max()


def test_prompts_stop_one_by_one() -> None:
    trace = model()(prompt(), stop=Converged(1e-3, 50))
    assert trace.iterations is not None
    assert len(set(trace.iterations.tolist())) > 1
    assert 1 < trace.iterations.min() < trace.iterations.max() < 50


def test_a_prompt_stops_where_it_would_alone() -> None:
    built, shown = model(), prompt()
    together = built(shown, stop=Converged(1e-3, 50))
    assert together.iterations is not None
    for place in range(shown.batch):
        alone = built(shown.select(slice(place, place + 1)), stop=Converged(1e-3, 50))
        assert alone.iterations is not None
        assert alone.iterations.item() == together.iterations[place]
        torch.testing.assert_close(alone.final[0], together.final[place], rtol=0, atol=1e-10)


def test_the_part_before_and_behind_the_loop_take_part() -> None:
    program = programs.two_loops(heads=2, norm=False, final_norm=False, inject="gate")
    built = model(program)
    full = built(prompt(), Unroll(steps=20)).predictions
    iterations, answers = by_looking(full, 1e-2)
    trace = built(prompt(), stop=Converged(1e-2, 20))
    assert trace.iterations is not None
    assert trace.iterations.tolist() == iterations
    torch.testing.assert_close(trace.final, answers, rtol=0, atol=1e-10)


def test_answers_that_blow_up_have_not_converged() -> None:
    built = model(Program(Loop(Layers(1, heads=2, norm=False, final_norm=False, positions=False), 3, "none")))
    for parameter in built.body.parameters():
        parameter.data = parameter.data * 1e6
    trace = built(prompt(), stop=Converged(1e-3, 60))
    assert trace.iterations is not None
    assert not trace.final.isfinite().all()
    blown = ~trace.final.isfinite().flatten(1).all(1)
    assert (trace.iterations[blown] == 60).all()


def test_nothing_is_tracked() -> None:
    assert not model()(prompt(), stop=Converged(1e-3, 3)).predictions.requires_grad


@pytest.mark.parametrize(
    "program",
    [programs.standard(1, heads=2), Program(Parallel(Loop(Layers(1, heads=2), 2), Layers(1, heads=2)))],
)
def test_a_program_without_a_loop_to_stop_is_refused(program: Program) -> None:
    with pytest.raises(ValueError, match="early stopping needs"):
        model(program)(prompt(), stop=Converged(1e-3, 3))


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="tolerance must not be negative, got -1"):
        Converged(tolerance=-1.0, max_steps=3)
    with pytest.raises(ValueError, match="max_steps must be at least 1, got 0"):
        Converged(tolerance=1.0, max_steps=0)
