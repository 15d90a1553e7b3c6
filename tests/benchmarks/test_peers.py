"""GPT-2 of `transformers` beside the same model here, at tiny sizes; no clock is trusted here."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from algoformer.training import Experiment
from benchmarks import QUICK, Setting
from benchmarks.contestants import Ours
from benchmarks.gpt2 import Theirs, gpt2_experiment, pair_tokenizer
from benchmarks.peers import engines_of, generation_rows, training_rows

DEVICE = torch.device("cpu")
CPU = Setting(device=DEVICE, size=QUICK, engines=("eager",), precisions=("fp32",))


@pytest.fixture
def timed(tmp_path: Path) -> Experiment:
    return gpt2_experiment(QUICK, "fp32", tmp_path)


def losses_of(contestant: Theirs, count: int) -> list[float]:
    with closing(contestant):
        return [float(contestant.learn()) for _ in range(count)]


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, object]]]:
    """Run what dynamo captures as it is; the settings of each attention in it are collected."""
    found: list[dict[str, object]] = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        found.extend(node.kwargs for node in module.graph.nodes if "scaled_dot" in str(node.target))
        return module.forward

    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **_: plain(function, backend=backend))
    yield found
    torch._dynamo.reset()


def test_both_libraries_take_the_same_steps(timed: Experiment) -> None:
    with closing(Ours(timed, "eager", DEVICE)) as ours:
        expected = ours.losses(4)
    assert losses_of(Theirs(timed, DEVICE), 4) == pytest.approx(expected, rel=1e-6)
    assert len({round(loss, 3) for loss in expected}) == 4


def test_a_tuned_step_is_the_same_and_its_attention_needs_no_mask(
    timed: Experiment, no_compiler: list[dict[str, object]]
) -> None:
    expected = losses_of(Theirs(timed, DEVICE), 3)
    found = losses_of(Theirs(timed, DEVICE, compiled=True, tuned=True), 3)
    assert found == pytest.approx(expected, rel=1e-6)
    assert [(one["attn_mask"], one["is_causal"]) for one in no_compiler] == [(None, True)] * QUICK.gpt_layers


def test_training_steps_of_as_many_parameters_are_compared_with_the_fastest_of_theirs() -> None:
    ours, theirs = training_rows(CPU)
    assert (ours["way"], theirs["way"]) == ("algoformer, eager", "transformers, eager")
    size, width = QUICK, QUICK.gpt_width
    layer = 12 * width**2 + 13 * width  # four maps with biases, two norms
    embedded = (size.gpt_vocabulary + size.gpt_context) * width
    assert ours["parameters"] == theirs["parameters"] == size.gpt_layers * layer + embedded + 2 * width
    for row in (ours, theirs):
        assert row["tokens"] == QUICK.gpt_batch * QUICK.gpt_context
        assert row["tokens_per_second"] * row["ms"] == pytest.approx(1000 * row["tokens"])
        assert row["times_transformers"] == pytest.approx(theirs["ms"] / row["ms"])
        assert row["ms_fastest"] <= row["ms"] <= row["ms_slowest"]


def test_an_engine_is_timed_only_if_it_covers_text(timed: Experiment) -> None:
    assert engines_of(timed, replace(CPU, engines=("fused",))) == ["eager"]
    assert engines_of(timed, replace(CPU, engines=("fused", "compiled"))) == ["compiled"]


def test_every_way_decodes_the_same_tokens() -> None:
    rows = list(generation_rows(replace(CPU, cases=("standard", "looped_window"))))
    assert [(row["model"], row["way"]) for row in rows] == [
        ("standard", "algoformer"),
        ("looped", "algoformer"),
        ("standard", "transformers GPT-2, static cache"),
        ("standard", "transformers GPT-2, static cache kept"),
        ("looped", "transformers, to_hf, static cache"),
    ]
    fastest = min(row["seconds"] for row in rows[2:4])
    for row in rows:
        assert row["same_tokens"] == 1
        assert row["tokens_per_second"] * row["seconds"] == pytest.approx(QUICK.sequences * QUICK.generated)
        assert row["times_transformers"] == pytest.approx(fastest / row["seconds"])
        assert row["compiled_by_them"] is (None if row["way"] == "algoformer" else False)


@pytest.mark.parametrize("vocabulary", [260, 300, 50_304])
def test_a_tokenizer_of_pairs_has_the_vocabulary(vocabulary: int) -> None:
    assert len(pair_tokenizer(vocabulary)) == vocabulary
