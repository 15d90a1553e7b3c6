import pytest
import torch

from algoformer import AlgoFormer, Unroll, programs, tasks
from algoformer.model.depths import answers_at
from algoformer.model.program import Loop, Parallel, Program

TASK = tasks.LinearRegression(dim=3, points=6)
BODY = programs.looped(heads=2)


@pytest.mark.parametrize(
    "program",
    [
        programs.algoformer(heads=2),
        programs.looped(heads=2, inject="gate"),
        programs.standard(2, heads=2),
        programs.nested(heads=2),
        Program(Parallel(BODY, BODY)),
    ],
    ids=["algoformer", "gate", "standard", "nested", "parallel"],
)
def test_one_pass_gives_what_an_unroll_to_each_depth_gives(program: Program) -> None:
    model = AlgoFormer(program, dim=3, out=1, context=TASK.context, width=16).double()
    prompt = TASK.sample(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    depths = (1, 4, 9)
    found = dict(answers_at(model, prompt, depths))
    assert tuple(found) == depths
    for depth, answers in found.items():
        expected = model(prompt, Unroll(steps=depth, window=1)).final
        torch.testing.assert_close(answers, expected, rtol=0, atol=1e-12)
        assert not answers.requires_grad


def test_what_stands_after_the_loop_runs_only_where_somebody_looks() -> None:
    model = AlgoFormer(programs.algoformer(heads=2), dim=3, out=1, context=TASK.context, width=16)
    prompt = TASK.sample(2, generator=torch.Generator().manual_seed(0))
    calls = {"loop": 0, "post": 0}
    _, loop, post = model.body.parts
    assert isinstance(model.program.parts[1], Loop)
    loop.body.register_forward_hook(lambda *_: calls.update(loop=calls["loop"] + 1))
    post.register_forward_hook(lambda *_: calls.update(post=calls["post"] + 1))
    list(answers_at(model, prompt, (5, 50)))
    assert calls == {"loop": 50, "post": 2}


@pytest.mark.parametrize("depths", [(), (3, 2), (2, 2), (0, 1)])
def test_depths_must_rise_from_one(depths: tuple[int, ...]) -> None:
    model = AlgoFormer(programs.looped(heads=2), dim=3, out=1, context=TASK.context, width=16)
    prompt = TASK.sample(2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="rising list of iterations"):
        list(answers_at(model, prompt, depths))


def test_a_prompt_for_another_model_is_refused() -> None:
    model = AlgoFormer(programs.looped(heads=2), dim=3, out=1, context=TASK.context, width=16)
    other = tasks.LinearRegression(dim=2, points=6).sample(2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="rows of dim=3"):
        list(answers_at(model, other, (1,)))
