import dataclasses

import pytest
import torch

from algoformer.algorithms import GradientDescent
from algoformer.theory import REGISTRY, Sizes, count_modules, gradient_descent, show, verify
from algoformer.theory.statement import Case, within
from algoformer.theory.verify import Report, statement, words
from algoformer.theory.verify_statements import lemma_case, pair_prompts
from algoformer.trace import Unroll

SMALL = Sizes(dim=3, examples=12, prompts=6, steps=8)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return list(verify(sizes=SMALL))


@pytest.mark.theorem
def test_every_statement_holds(reports: list[Report]) -> None:
    assert [report.name for report in reports] == list(REGISTRY)
    assert [report.name for report in reports if not report.holds] == []


@pytest.mark.theorem
def test_no_statement_needs_more_layers_or_heads_than_the_paper_claims(reports: list[Report]) -> None:
    assert [report.name for report in reports if not report.within_claim] == []


def test_all_statements_of_the_paper_are_there() -> None:
    paper = {"codes", "copy", "gradient_descent", "representation", "autoregressive", "chain", "newton"}
    assert paper <= set(REGISTRY)
    assert all(name == item.name for name, item in REGISTRY.items())


def test_a_report_is_plain_data(reports: list[Report]) -> None:
    needed = {"name", "claimed", "counted", "width", "dtype", "steps", "max_deviation", "seconds"}
    for report in reports:
        data = report.to_data()
        assert needed <= set(data)
        assert {type(value) for value in data.values()} <= {str, int, float, bool}


def test_a_wrong_step_size_is_found_out() -> None:
    prompt = pair_prompts(SMALL)
    case = Case(
        model=gradient_descent(dim=3, examples=12, step_size=0.101),
        textbook=GradientDescent(step_size=0.1),
        prompts=[prompt],
        steps=3,
    )
    assert case.measure().deviation > 1e-4


def test_a_deviation_at_an_early_step_is_not_forgotten() -> None:
    case = lemma_case(dataclasses.replace(SMALL, prompts=20, steps=200))
    wrong = dataclasses.replace(case.textbook, step_size=0.99 * case.textbook.step_size)  # type: ignore[type-var]
    gaps = case.model(case.prompts[0], Unroll(steps=200)).predictions
    gaps = gaps - wrong(case.prompts[0], Unroll(steps=200)).predictions
    expected = gaps.abs().max().item()
    assert gaps[-1].abs().max() < expected
    assert dataclasses.replace(case, textbook=wrong).measure().deviation == pytest.approx(expected)


def test_not_a_number_counts_as_infinitely_far() -> None:
    case = lemma_case(SMALL)
    torch.nn.init.constant_(case.model.read_out.weight, torch.nan)
    assert case.measure().deviation == float("inf")


def test_a_head_counts_if_it_can_write() -> None:
    model = gradient_descent(dim=2, examples=4, step_size=0.1)
    assert count_modules(model)["post"] == (1, 1)
    with torch.no_grad():
        model.body.parts[-1].layers[0].attention.output.weight.zero_()  # type: ignore[union-attr,index]
    assert count_modules(model)["post"] == (1, 0)


@pytest.mark.parametrize(
    ("counted", "fits"),
    [({"pre": (2, 1)}, True), ({"pre": (3, 1)}, False), ({"pre": (1, 3)}, False), ({"post": (1, 1)}, False)],
)
def test_more_layers_heads_or_modules_than_claimed_do_not_fit(
    counted: dict[str, tuple[int, int]], fits: bool
) -> None:
    assert within(counted, {"pre": (2, 2)}) == fits


@pytest.mark.parametrize("name", REGISTRY)
def test_show_names_the_program_the_subspaces_and_what_each_layer_writes(name: str) -> None:
    text = show(name, sizes=SMALL)
    assert text.startswith(f"{name}: {statement(name).reference}")
    if name != "codes":  # the one statement without a model
        for heading in ("Program", "Subspaces of the stream", "What each layer writes"):
            assert heading in text
        assert words(statement(name).claimed) in text


def test_unknown_names_are_answered_with_those_there_are() -> None:
    words = r"unknown statement 'newtom' \(did you mean 'newton'\?\); choose from codes, copy"
    for ask in (lambda: show("newtom"), lambda: next(verify("newtom"))):
        with pytest.raises(ValueError, match=words):
            ask()


@pytest.mark.parametrize("name", ["dim", "examples", "prompts", "steps"])
def test_sizes_start_at_one(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Sizes(**{name: 0})
