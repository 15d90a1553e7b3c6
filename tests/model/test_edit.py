"""States are read and written by address, and doing so changes nothing else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from algoformer.language import TextClassifier, TokenModel
from algoformer.model import Converged, Layers, Loop, Parallel, Program, addresses, presets
from algoformer.trace import Unroll
from tests.model.test_parts import model, prompt
from tests.random_programs import programs as random_programs

EXACT = {"rtol": 1e-12, "atol": 1e-12}
ATTENTION = "loop[2]/0/attention"


@settings(max_examples=20)
@given(random_programs(causal=True), st.integers(1, 3), st.data())
def test_an_edit_that_returns_the_state_changes_nothing(
    program: Program, steps: int, data: st.DataObject
) -> None:
    address = data.draw(st.sampled_from(list(addresses(program, steps))))
    built, unroll, seen = model(program, blanks=(1, 0)), Unroll(steps=steps), []
    expected = built(prompt(), unroll).predictions
    with built.edit({address: lambda state: seen.append(state.shape[-2]) or state}):
        found = built(prompt(), unroll).predictions
    torch.testing.assert_close(found, expected, **EXACT)
    assert seen == [7], "the state is edited once, and all tokens of it are there"


@settings(max_examples=20)
@given(random_programs(causal=True, loops=True), st.integers(1, 3), st.data())
def test_a_recorded_state_put_back_gives_the_answers_it_came_from(
    program: Program, steps: int, data: st.DataObject
) -> None:
    address = data.draw(st.sampled_from(list(addresses(program, steps))))
    built, unroll = model(program), Unroll(steps=steps, keep=(address,))
    trace = built(prompt(), unroll)
    with built.edit({address: trace.states[address]}):
        torch.testing.assert_close(built(prompt(), unroll).predictions, trace.predictions, **EXACT)


def test_an_edit_continues_from_the_new_state() -> None:
    """A loop that is set back to another prompt's state after iteration 3 answers what that prompt does."""
    built, shown = model(Program(Loop(Layers(1, heads=2), 6, inject="none", name="loop"))), prompt()
    other = shown.select(torch.tensor([1, 0]))
    state = built(other, Unroll(steps=6, keep=("loop[3]",))).states["loop[3]"]
    with built.edit({"loop[3]": state}):
        patched = built(shown, Unroll(steps=6))
    expected = built(other, Unroll(steps=6))
    torch.testing.assert_close(patched.predictions[3:], expected.predictions[3:], **EXACT)
    clean = built(shown, Unroll(steps=6)).predictions
    torch.testing.assert_close(patched.predictions[:2], clean[:2], **EXACT)


def test_after_the_block_the_model_is_the_same_and_blocks_nest() -> None:
    built = model(presets.algoformer(heads=2, steps=2))
    clean = built(prompt()).final
    with built.edit({"pre": torch.zeros(())}):
        first = built(prompt()).final
        with built.edit({"loop[1]": lambda state: -state}):
            assert not torch.equal(built(prompt()).final, first)
        assert torch.equal(built(prompt()).final, first)
    assert torch.equal(built(prompt()).final, clean)


def test_parts_after_the_loop_show_every_iteration_of_the_window() -> None:
    built, shapes = model(presets.algoformer(heads=2, steps=4)), []
    with built.edit({"post/0": lambda state: shapes.append(tuple(state.shape)) or state}):
        built(prompt(), Unroll(steps=4, window=3))
    assert shapes == [(3, 2, 6, 8)]


def test_attention_weights_are_the_softmax_that_the_layer_uses() -> None:
    built = model(presets.algoformer(heads=2, steps=2))
    trace = built(prompt(), Unroll(steps=2, keep=(ATTENTION,)))
    weights = trace.states[ATTENTION]
    assert weights.shape == (2, 2, 6, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 6, dtype=torch.float64))
    assert not weights.triu(1).any()
    torch.testing.assert_close(built(prompt(), Unroll(steps=2)).predictions, trace.predictions, **EXACT)


def test_edited_attention_weights_are_used() -> None:
    """Attention to oneself alone is the value's own projection, added to the stream."""
    built = model(presets.looped(heads=2, steps=1))
    layer = built.body.parts[0].body.parts[0].layers[0]
    itself = torch.eye(6, dtype=torch.float64)
    with built.edit({"loop[1]/0/attention": itself}):
        found = built(prompt(), Unroll(steps=1, keep=("loop[1]/0",))).states["loop[1]/0"]
    positions = built.body.parts[0].body.parts[0].positions.table[:6]
    stream = built.read_in(prompt().rows) + positions
    value = layer.attention.qkv(layer.attention_norm(stream))[..., 16:]
    stream = stream + layer.attention.output(value)
    torch.testing.assert_close(found, stream + layer.feedforward(layer.feedforward_norm(stream)), **EXACT)


class Mean(nn.Module):
    def forward(self, stream: Tensor) -> Tensor:
        return stream.mean(dim=1, keepdim=True).expand_as(stream)


class MeanInContext(Mean):
    def forward(self, stream: Tensor, context: object = None) -> Tensor:
        return super().forward(stream)


@pytest.mark.parametrize("kind", [Mean, MeanInContext])
def test_an_attention_module_without_weights_is_named(kind: type[nn.Module]) -> None:
    built = model(presets.looped(heads=2, steps=2))
    built.body.parts[0].body.parts[0].layers[0].attention = kind()
    expected = built(prompt(), Unroll(steps=2)).final
    message = r"nothing was recorded or edited at 'loop\[2\]/0/attention'"
    with pytest.raises(ValueError, match=message):
        built(prompt(), Unroll(steps=2, keep=(ATTENTION,)))
    with built.edit({ATTENTION: lambda weights: 0 * weights}), pytest.raises(ValueError, match=message):
        built(prompt(), Unroll(steps=2))
    torch.testing.assert_close(built(prompt(), Unroll(steps=2, keep=("loop[1]/0",))).final, expected)


@pytest.mark.parametrize("address", ["loop[3]", "lop[1]", "loop[1]/1", "pre/0/attentions", "loop[1]/0/0"])
def test_an_unknown_address_is_refused_when_the_model_runs(address: str) -> None:
    built = model(presets.algoformer(heads=2, steps=2))
    with built.edit({address: torch.zeros(())}), pytest.raises(ValueError, match="no state at address"):
        built(prompt(), Unroll(steps=2))


def test_an_edit_of_another_shape_is_refused() -> None:
    built = model(presets.algoformer(heads=2, steps=2))
    for edit, found in ((lambda state: state[:1], r"\(1, 6, 8\)"), (torch.zeros(5), r"\(5,\)")):
        with built.edit({"pre": edit}), pytest.raises(ValueError, match=f"gives {found}.*\\(2, 6, 8\\)"):
            built(prompt())


def test_edits_reach_nested_loops_and_branches() -> None:
    body = (Layers(1, heads=2, name="outer"), Loop(Layers(1, heads=2), 2, name="inner"))
    program = Program(Parallel(Loop(body, 2, name="deep"), Layers(1, heads=2), name="both"))
    built = model(program)
    clean = built(prompt()).final
    for address in ("both/branch0/deep[1]/inner[2]/0", "both/branch1/0", "both"):
        with built.edit({address: lambda state: state.roll(1, dims=-1)}):
            assert not torch.allclose(built(prompt()).final, clean), address


def test_a_stopping_rule_sees_edits() -> None:
    built = model(presets.algoformer(heads=2, steps=9, inject="none"))
    with built.edit({f"loop[{step}]": torch.zeros(()) for step in range(2, 10)}):
        assert built(prompt(), stop=Converged(0.0, 9)).iterations.tolist() == [3, 3]


def test_models_of_text_record_and_edit_too() -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "context": 9, "width": 8}
    ids, mask = torch.randint(11, (3, 5)), torch.ones(3, 5, dtype=torch.bool)
    unroll = Unroll(steps=3, window=1, keep=("loop[2]", ATTENTION))
    language = TokenModel(presets.algoformer(heads=2, steps=3), **sizes)
    labels = TextClassifier(presets.algoformer(heads=2, causal=False), labels=("a", "b"), **sizes)
    for built, arguments in ((language, (ids,)), (labels, (ids, mask))):
        trace = built.trace(*arguments, unroll)
        assert {name: tuple(state.shape) for name, state in trace.states.items()} == {
            "loop[2]": (3, 5, 8),
            ATTENTION: (3, 2, 5, 5),
        }
        plain = built(*arguments, Unroll(steps=3, window=1))
        torch.testing.assert_close(plain.reshape(trace.predictions.shape), trace.predictions)
        with built.edit({"loop[2]": lambda state: state.roll(1, dims=-1)}):
            assert not torch.allclose(built(*arguments, Unroll(steps=3, window=1)), plain)
        with pytest.raises(ValueError, match=r"call trace\(\), which returns them"):
            built(*arguments, unroll)


class LowRank(nn.Linear):
    """A linear map with a low-rank addition, as adapters have."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__(base.in_features, base.out_features)
        self.load_state_dict(base.state_dict())
        self.down = nn.Parameter(torch.randn(2, base.in_features, dtype=torch.float64))
        self.up = nn.Parameter(torch.randn(base.out_features, 2, dtype=torch.float64))

    def forward(self, stream: Tensor) -> Tensor:
        return super().forward(stream) + stream @ self.down.T @ self.up.T


@pytest.mark.parametrize("name", ["standard", "looped", "algoformer"])
def test_an_adapter_in_the_last_layer_is_used_and_learns_whatever_is_recorded(name: str) -> None:
    torch.manual_seed(0)
    program = presets.PRESETS[name](**({"layers": 2} if name == "standard" else {"steps": 3}), heads=2)
    built = model(program)
    plain = built(prompt()).final
    last = [part for part in built.modules() if hasattr(part, "qkv")][-1]
    last.qkv, last.output = LowRank(last.qkv).double(), LowRank(last.output).double()
    adapted = built(prompt()).final
    assert not torch.allclose(adapted, plain)
    steps = 3 if name != "standard" else 1
    kept = built(prompt(), Unroll(steps=steps, window=1, keep=(next(addresses(program)),)))
    torch.testing.assert_close(kept.final, adapted, **EXACT)
    adapted.sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in (last.qkv.up, last.output.up))


def test_hooks_on_the_projections_of_the_last_layer_are_called() -> None:
    built, calls = model(presets.standard(2, heads=2)), []
    for part in built.modules():
        if hasattr(part, "qkv"):
            part.qkv.register_forward_hook(lambda *_: calls.append("qkv"))
            part.output.register_forward_hook(lambda *_: calls.append("output"))
    built(prompt())
    assert calls == ["qkv", "output"] * 2
