import pytest
import torch

from algoformer.model import AlgoFormer, Converged, Layers, Loop, Parallel, Program
from algoformer.model import presets as programs
from algoformer.model.program import modules_of
from algoformer.prompt import Prompt
from algoformer.trace import Solver, Unroll

SIZES = {"dim": 4, "out": 1, "context": 8, "width": 8}


def prompt(batch: int = 2, points: int = 4, dim: int = 4, out: int = 1) -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    xs = torch.randn(batch, points, dim, generator=numbers)
    return Prompt.of_pairs(xs, torch.randn(batch, points, out, generator=numbers))


def test_a_model_is_a_solver() -> None:
    assert isinstance(AlgoFormer(programs.looped(heads=2), **SIZES), Solver)


@pytest.mark.parametrize("name", programs.PRESETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_preset_answers_in_the_precision_it_is_in(name: str, dtype: torch.dtype) -> None:
    model = AlgoFormer(programs.PRESETS[name](heads=2), **SIZES).to(dtype)
    trace = model(prompt().to(dtype), Unroll(steps=3, window=2))
    assert trace.predictions.shape == (2, 2, 4, 1)
    assert trace.predictions.dtype == dtype
    assert trace.predictions.isfinite().all()


def test_double_precision_is_double_all_the_way() -> None:
    model = AlgoFormer(programs.algoformer(heads=2), **SIZES)
    single = model(prompt(), Unroll(steps=5)).predictions
    double = model.double()(prompt().to(torch.float64), Unroll(steps=5)).predictions
    rounding = (double - single.double()).abs().max()
    assert 0 < rounding < 1e-4


def test_it_runs_far_beyond_its_training_depth_and_stays_finite() -> None:
    model = AlgoFormer(programs.algoformer(heads=2, steps=2), **SIZES)
    with torch.no_grad():
        trace = model(prompt(), Unroll(steps=200, window=1))
    assert trace.steps == (200,)
    assert trace.final.isfinite().all()


def test_a_program_may_be_given_as_a_part_or_a_tuple() -> None:
    assert AlgoFormer(Layers(1, heads=2), **SIZES).program == Program(Layers(1, heads=2))
    parts = (Layers(1, heads=2), Loop(Layers(1, heads=2), 3))
    assert AlgoFormer(parts, **SIZES).program == Program(*parts)


def test_modules_are_listed_in_order_each_once() -> None:
    first, second, third, fourth = (Layers(count) for count in (1, 2, 3, 4))
    program = Program(first, Loop((second, Loop(third, 2)), 5), Parallel(fourth, first))
    assert modules_of(program) == (first, second, third, fourth, first)


def test_initial_scales_follow_gpt2() -> None:
    torch.manual_seed(0)
    model = AlgoFormer(programs.standard(4), dim=20, out=1, context=80, width=128)
    module = model.body.parts[0]
    assert module.positions.table.std().item() == pytest.approx(0.02, rel=0.05)
    assert module.layers[0].attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
    small = 0.02 / 8**0.5
    assert module.layers[3].feedforward.down.weight.std().item() == pytest.approx(small, rel=0.05)
    assert (module.final_norm.weight == 1).all()


def full() -> AlgoFormer:
    return AlgoFormer(programs.algoformer(heads=2, causal=False), **SIZES)


def test_full_attention_refuses_to_see_rows_behind_a_question() -> None:
    with pytest.raises(ValueError, match=r"prompt\.prefix\(\)"):
        full()(prompt(), Unroll(steps=2))
    with pytest.raises(ValueError, match="full attention"):
        full()(prompt(), stop=Converged(1e-3, 2))
    shown = prompt()
    behind = Prompt(rows=shown.rows, targets=shown.targets[:, :1], reads=(0,), parts=2)
    with pytest.raises(ValueError, match="full attention"):
        full()(behind, Unroll(steps=2))


def test_full_attention_answers_one_question_at_the_end() -> None:
    assert full()(prompt().prefix(), Unroll(steps=2)).predictions.shape == (2, 2, 1, 1)


def test_one_full_module_anywhere_makes_the_model_full() -> None:
    inside = Loop(Parallel(Layers(1, heads=2), Layers(1, heads=2, causal=False)), 2)
    assert not AlgoFormer((Layers(1, heads=2), inside), **SIZES).causal
    assert AlgoFormer(programs.nested(heads=2), **SIZES).causal


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim must be at least 1, got 0"),
        ({"out": 0}, "out must be at least 1"),
        ({"context": 0}, "context must be at least 1"),
        ({"width": 0}, "width must be at least 1"),
        ({"row_maps": 0}, "row_maps must be at least 1"),
        ({"blanks": (0, -1)}, "blanks must not be negative"),
        ({"width": 9}, "2 heads do not divide a stream of width 9"),
    ],
)
def test_impossible_sizes_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AlgoFormer(programs.looped(heads=2), **{**SIZES, **change})


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (prompt(dim=5), "reads rows of dim=4, the prompt's have 5"),
        (prompt(out=2), "answers with out=1 numbers, the prompt asks for 2"),
        (prompt(points=5), "the prompt has 10 rows, this model was built for context=8"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused(shown: Prompt, message: str) -> None:
    model = AlgoFormer(programs.looped(heads=2), **SIZES)
    with pytest.raises(ValueError, match=message):
        model(shown, Unroll(steps=1))


def test_maps_by_kind_of_row_need_samples_of_that_kind() -> None:
    model = AlgoFormer(programs.looped(heads=2), **SIZES, row_maps=3)
    with pytest.raises(ValueError, match="samples of 3 rows, the prompt's have 2"):
        model(prompt(), Unroll(steps=1))


def test_answers_are_read_at_the_questions_blanks_or_not() -> None:
    """With positions that mark each token and nothing else, the answer tells where it was read."""
    for blanks in [(0, 0), (2, 1)]:
        model = AlgoFormer(Layers(0, final_norm=False), **SIZES, blanks=blanks)
        for parameter in model.parameters():
            parameter.data.zero_()
        places = torch.arange(8 + sum(blanks), dtype=torch.float32)
        model.body.parts[0].positions.table.data[:, 0] = places
        model.read_out.weight.data[0, 0] = 1
        answers = model(prompt()).final[0, :, 0]
        assert answers.tolist() == [read + blanks[0] for read in prompt().reads]


def test_a_state_dict_fills_another_model_of_the_same_program() -> None:
    first, second = (AlgoFormer(programs.nested(heads=2, inject="gate"), **SIZES) for _ in range(2))
    second.load_state_dict(first.state_dict())
    expected = first(prompt(), Unroll(steps=3)).predictions
    assert torch.equal(second(prompt(), Unroll(steps=3)).predictions, expected)
