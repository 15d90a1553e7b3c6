import re
from typing import Any

import pytest

from algoformer.model import AlgoFormer, Layers, Loop, Program
from algoformer.model import presets as programs


def core(program: Program) -> int:
    """Parameters without positions, read-in and read-out, counted in the built model."""
    model = AlgoFormer(program, dim=20, out=1, context=4)
    inside = model.body.named_parameters()
    return sum(parameter.numel() for name, parameter in inside if "positions" not in name)


def test_the_three_models_have_the_papers_shapes() -> None:
    assert programs.standard() == Program(Layers(12, name="layers"))
    assert programs.looped() == Program(Loop(Layers(1), 20, "add", "loop"))
    assert programs.algoformer() == Program(
        Layers(1, name="pre"), Loop(Layers(1), 20, "add", "loop"), Layers(1, name="post")
    )


def test_the_three_models_have_the_protocols_sizes() -> None:
    assert core(programs.standard()) == 9_477_632
    assert core(programs.looped()) == 790_272
    assert core(programs.algoformer()) == 3 * 790_272


def test_a_module_of_no_layers_is_left_out() -> None:
    assert programs.algoformer(pre=0, post=0) == programs.looped()
    assert [part.name for part in programs.nested(pre=0, post=0)] == ["loop"]
    assert [part.name for part in programs.two_loops(between=0, post=0)] == ["features", "loop"]


@pytest.mark.parametrize("name", programs.PRESETS)
def test_options_reach_every_layer(name: str) -> None:
    def modules(program: Program) -> list[Layers]:
        return [
            layers
            for part in program
            for layers in (modules(part.body) if isinstance(part, Loop) else [part])
            if isinstance(layers, Layers)
        ]

    found = modules(programs.PRESETS[name](heads=2, causal=False))
    assert found
    assert all(layers.heads == 2 and not layers.causal for layers in found)


def test_the_nested_preset_has_a_loop_in_its_loop() -> None:
    loop = programs.nested(steps=7, inner_steps=3).parts[1]
    assert isinstance(loop, Loop)
    inner = loop.body.parts[1]
    assert isinstance(inner, Loop)
    assert (loop.steps, inner.steps) == (7, 3)


def test_equation_one_is_plain_and_can_be_varied() -> None:
    layers = programs.equation_one(2, heads=3, head_width=5, hidden=7)
    switches = (layers.norm, layers.scaled, layers.causal, layers.positions, layers.final_norm)
    assert switches == ("none", False, False, "none", False)
    assert layers.activation == "relu"
    assert programs.equation_one(1, heads=1, head_width=1, hidden=1, causal=True).causal


@pytest.mark.parametrize(
    ("build", "wrong", "hint"),
    [
        (programs.algoformer, "step", "algoformer has no field 'step' (did you mean 'steps'?)"),
        (programs.looped, "head", "looped has no field 'head' (did you mean 'heads'?)"),
        (programs.standard, "qqq", "standard has no field 'qqq'; its fields are layers, heads, "),
    ],
)
def test_an_unknown_setting_meets_the_nearest_one(build: Any, wrong: str, hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(hint)):
        build(**{wrong: 20})
