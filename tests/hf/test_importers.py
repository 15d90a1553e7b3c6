"""Decoders of `transformers`, imported as programs, give the logits of the originals."""

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

from algoformer.hf import from_hf, loopify, to_hf
from algoformer.hf.importers import FAMILIES
from algoformer.language import generate
from algoformer.language.classifier import TextClassifier
from algoformer.model.program import Layers, Loop, Program
from tests.hf.families import tiny, transformers

PLAIN = {
    "gemma2": {
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "query_pre_attn_scalar": 8,
        "sliding_window": 64,
    },
    "mistral": {"sliding_window": None},
}
EVERY = pytest.mark.parametrize("family", sorted(FAMILIES))
TO_LOOP = pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"hrm_text"}))
TOKENS = torch.randint(3, 64, (2, 11), generator=torch.Generator().manual_seed(3))


def original(family: str) -> Any:
    model = tiny(family, **PLAIN.get(family, {}))
    if family == "hrm_text":
        model.model.z_L_init.data.zero_()  # its fast state always starts at zero
    return model


class ExactNorm(torch.nn.Module):
    """An RMS norm in the precision of its input; the one of `transformers` rounds to fp32."""

    def __init__(self, norm: Any, shift: float) -> None:
        super().__init__()
        weight = getattr(norm, "weight", torch.ones(()))
        self.weight = torch.nn.Parameter(weight.detach().double())
        self.eps = getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", 0.0)
        self.shift = shift

    def forward(self, stream: Tensor) -> Tensor:
        mean = stream.square().mean(dim=-1, keepdim=True)
        return stream / (mean + self.eps).sqrt() * (self.weight + self.shift)


class ExactAngles(torch.nn.Module):
    """The cosines and sines of RoPE in float64."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.base = config.rope_parameters["rope_theta"]

    def forward(self, stream: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        powers = torch.arange(0, self.width, 2, dtype=torch.float64) / self.width
        angles = position_ids[..., None] * self.base**-powers
        both = torch.cat([angles, angles], dim=-1)
        return both.cos(), both.sin()


def exact(model: Any) -> Any:
    """The same model in float64 throughout."""
    model = model.double()
    shift = FAMILIES[model.config.model_type].norm_shift
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                setattr(module, name, ExactNorm(child, shift))
            elif name == "rotary_emb":
                setattr(module, name, ExactAngles(model.config))
    return model


@EVERY
def test_an_imported_decoder_gives_the_original_logits(family: str) -> None:
    model = original(family)
    torch.testing.assert_close(from_hf(model)(TOKENS)[0], model(TOKENS).logits, rtol=0, atol=1e-5)


@EVERY
def test_in_float64_the_difference_is_rounding(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = exact(original(family))
    if family == "gemma2":
        # its attention rounds the weights to fp32
        monkeypatch.setattr(torch.nn.functional, "softmax", lambda scores, dim, dtype: scores.softmax(dim))
        # its embedding keeps √width in the precision in which it was made
        embedding = model.get_input_embeddings()
        embedding.embed_scale = torch.tensor(32.0, dtype=torch.float64).sqrt()
    torch.testing.assert_close(from_hf(model)(TOKENS)[0], model(TOKENS).logits, rtol=0, atol=1e-10)


@TO_LOOP
def test_an_imported_looped_decoder_is_a_program_with_that_loop(family: str) -> None:
    model = loopify(original(family), prelude=1, core=2, coda=1, steps=3)
    ours = from_hf(model)
    loops = [part for part in ours.program if isinstance(part, Loop)]
    assert [loop.steps for loop in loops] == [3]
    torch.testing.assert_close(ours(TOKENS)[0], model(TOKENS).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("split", [(0, 3, 1), (0, 4, 0), (2, 2, 0)])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_loop_may_begin_or_end_the_program(family: str, split: tuple[int, int, int]) -> None:
    prelude, core, coda = split
    model = loopify(original(family), prelude=prelude, core=core, coda=coda, steps=2)
    torch.testing.assert_close(from_hf(model)(TOKENS)[0], model(TOKENS).logits, rtol=0, atol=1e-5)


@TO_LOOP
def test_both_libraries_decode_the_same_tokens(family: str) -> None:
    model = loopify(original(family), prelude=1, core=2, coda=1, steps=2)
    theirs = model.generate(TOKENS, max_new_tokens=6, do_sample=False, eos_token_id=None)[:, 11:]
    ours = generate(from_hf(model), TOKENS, eos_id=63, max_new_tokens=6).tokens[:, 0]
    for row, tokens in zip(theirs, ours, strict=True):
        ended = (row == 63).nonzero().flatten().tolist() or [6]
        assert torch.equal(row[: ended[0]], tokens[: ended[0]])
    wrapped = to_hf(from_hf(model)).generate(TOKENS, max_new_tokens=6, do_sample=False, eos_token_id=None)
    assert torch.equal(wrapped[:, 11:], theirs)


def test_two_states_decode_as_the_original_does() -> None:
    model = original("hrm_text")
    theirs = model.generate(TOKENS, max_new_tokens=6, do_sample=False, eos_token_id=None)[:, 11:]
    ours = from_hf(model)
    assert str(ours.program).startswith("loop  ⟲ 2 steps, inject none, two states\n  low   ⟲ 3 steps")
    wrapped = to_hf(ours).generate(TOKENS, max_new_tokens=6, do_sample=False, eos_token_id=None)
    assert torch.equal(wrapped[:, 11:], theirs)
    with pytest.raises(ValueError, match="does not know the family of HrmText"):
        loopify(model, prelude=0, core=4, coda=0, steps=2)


def test_the_weights_are_a_copy() -> None:
    model = original("llama")
    before = model(TOKENS).logits.detach()
    ours = from_hf(model)
    with torch.no_grad():
        for weight in ours.parameters():
            weight.zero_()
    assert torch.equal(model(TOKENS).logits, before)
    assert from_hf(to_hf(ours)) is ours


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("gpt_neox", {}, r"does not know the family 'gpt_neox'; it knows llama, mistral"),
        ("gemma2", {}, "cannot import this gemma2: it has a sliding window"),
        ("mistral", {}, "cannot import this mistral: it has a sliding window"),
        ("gemma2", {"sliding_window": 64}, "cannot import this gemma2: it has capped scores"),
        ("hrm_text", {}, "cannot import this hrm_text: it has a fast state that does not start at zero"),
        ("llama", {"attention_bias": True}, "cannot import this llama: it has biases"),
        ("llama", {"is_causal": False}, "cannot import this llama: it has attention in both directions"),
        ("llama", {"hidden_act": "tanh"}, "cannot import this llama: it has an activation tanh"),
        ("gpt2", {"activation_function": "tanh"}, "cannot import this gpt2: it has an activation tanh"),
        ("gpt2", {"scale_attn_weights": False}, "cannot import this gpt2: it has unscaled scores"),
        (
            "gemma2",
            {**PLAIN["gemma2"], "hidden_activation": "tanh"},
            "cannot import this gemma2: it has an activation tanh",
        ),
    ],
)
def test_what_programs_cannot_express_is_named(family: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_hf(tiny(family, **options))


def test_dropout_comes_along_and_goes_back() -> None:
    gpt2 = from_hf(tiny("gpt2", resid_pdrop=0.3, attn_pdrop=0.2)).train()
    assert (gpt2.trunk.dropout, gpt2.trunk.attention_dropout) == (0.3, 0.2)
    assert not torch.equal(gpt2(TOKENS), gpt2(TOKENS))  # drawn anew
    config = to_hf(gpt2, format="gpt2").config
    assert (config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (0.3, 0.3, 0.2)
    llama = from_hf(tiny("llama", attention_dropout=0.4))
    assert (llama.trunk.dropout, llama.trunk.attention_dropout) == (0.0, 0.4)
    assert to_hf(llama, format="llama").config.attention_dropout == 0.4


@pytest.mark.usefixtures("as_a_user")
def test_what_is_no_causal_language_model_is_refused_in_one_line() -> None:
    llama = tiny("llama")
    for model, message in (
        ("llama", "needs a model of transformers, got str; open one with AutoModelForCausalLM"),
        (torch.nn.Linear(2, 2), "needs a model of transformers, got Linear"),
        (llama.model, "got LlamaModel, which scores no tokens; open it with AutoModelForCausalLM"),
        (
            transformers.LlamaForSequenceClassification(llama.config),
            "got LlamaForSequenceClassification, which scores no tokens",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            from_hf(model)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the package peft
def test_an_adapter_is_merged_first() -> None:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    model = peft.get_peft_model(tiny("llama"), settings).eval()
    with pytest.raises(ValueError, match="merge the adapter first"):
        from_hf(model)
    expected = model(TOKENS).logits
    found = from_hf(model.merge_and_unload())(TOKENS)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_an_adapter_inside_a_model_is_noticed() -> None:
    peft = pytest.importorskip("peft", minversion="0.18.2")  # as transformers needs it
    model = tiny("llama")
    model.add_adapter(peft.LoraConfig(target_modules=["q_proj"]))
    with pytest.raises(ValueError, match="merge the adapter first"):
        from_hf(model)


def test_a_classifier_of_ours_comes_back_as_it_is() -> None:
    program = Program(Layers(1, heads=2, causal=False))
    ours = TextClassifier(program, labels=("a", "b"), vocabulary=8, context=4, width=8)
    assert from_hf(to_hf(ours)) is ours


def test_the_norms_of_a_single_key_head_are_those_of_the_family() -> None:
    model = tiny("olmo2", num_key_value_heads=1)
    torch.testing.assert_close(from_hf(model)(TOKENS)[0], model(TOKENS).logits, rtol=0, atol=1e-5)


def test_albert_is_one_layer_with_norms_after_it_in_a_loop() -> None:
    from algoformer.model.parts import ProgramModule

    sizes = {"vocab_size": 64, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 6}
    config = transformers.AlbertConfig(**sizes, num_attention_heads=4, intermediate_size=48)
    torch.manual_seed(0)
    albert = transformers.AlbertModel(config).eval().double()
    with torch.no_grad():
        for weight in albert.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    words = {"causal": False, "norm_at": "after", "norm_eps": 1e-12, "positions": "none", "final_norm": False}
    program = Program(Loop(Layers(1, 4, hidden=48, **words), steps=6, inject="none"))
    body = ProgramModule(program, width=32, context=16).double()
    theirs = albert.encoder.albert_layer_groups[0].albert_layers[0]
    attention = theirs.attention
    qkv = (attention.query, attention.key, attention.value)
    pairs = {
        "attention.output": attention.dense,
        "attention_after_norm": attention.LayerNorm,
        "feedforward.up": theirs.ffn,
        "feedforward.down": theirs.ffn_output,
        "feedforward_after_norm": theirs.full_layer_layer_norm,
    }
    weights = {
        f"attention.qkv.{name}": torch.cat([getattr(each, name) for each in qkv])
        for name in ("weight", "bias")
    }
    weights |= {
        f"{ours}.{name}": getattr(each, name) for ours, each in pairs.items() for name in ("weight", "bias")
    }
    body.load_state_dict(
        {f"parts.0.body.parts.0.layers.0.{name}": weight for name, weight in weights.items()}
    )
    entry = albert.encoder.embedding_hidden_mapping_in(albert.embeddings(TOKENS))
    torch.testing.assert_close(body(entry), albert(TOKENS).last_hidden_state, rtol=0, atol=1e-10)


def test_the_decaying_state_of_parcae_is_that_of_esmfold2() -> None:
    module = pytest.importorskip("transformers.models.esmfold2.modeling_esmfold2")
    if not hasattr(module, "EsmFold2Parcae"):
        pytest.skip("this version of transformers has no EsmFold2Parcae")
    from algoformer.model.injections import DecayedState

    torch.manual_seed(0)
    ours = DecayedState(16).double()
    theirs = torch.nn.Module.__new__(module.EsmFold2Parcae)
    torch.nn.Module.__init__(theirs)  # its own needs the configuration of a whole protein model
    theirs.input_norm = torch.nn.Identity()
    for name, weight in (("log_state_decay", ours.log_rate), ("log_delta", ours.log_delta)):
        setattr(
            theirs, name, torch.nn.Parameter(weight.detach() + 0.3 * torch.randn(16, dtype=torch.float64))
        )
    theirs.input_matrix_continuous = torch.nn.Parameter(torch.randn(16, 16, dtype=torch.float64))
    with torch.no_grad():
        ours.log_rate.copy_(theirs.log_state_decay)
        ours.log_delta.copy_(theirs.log_delta)
        ours.input_map.weight.copy_(theirs.input_matrix_continuous)
    state, entry = torch.randn(2, 3, 5, 16, dtype=torch.float64)
    for _ in range(4):
        expected = theirs(state, entry, *theirs.discretize())
        torch.testing.assert_close(ours(state, entry), expected, rtol=0, atol=1e-12)
        state = expected.detach()
