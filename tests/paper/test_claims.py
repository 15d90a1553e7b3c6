"""Each claim on results that were made to hold it, to break it and to leave it open."""

from dataclasses import replace

import pytest

from made_up_results import constructed, curve
from paper.archive import Results
from paper.claims import iterations_to_settle
from paper.comparison import Missing, need
from paper.measuring import read_at
from paper.result import Result
from paper.runs import RunSpec
from paper.summary import all_items
from paper.verdicts import CLAIMS

ITEMS = {item.name: item for item in all_items("short")}
BY_NUMBER = {claim.number: claim for claim in CLAIMS}
TASKS = ("representation", "autoregressive", "chain")


def made(errors: dict[str, float], **shape: float) -> dict[str, Result]:
    return {name: constructed(ITEMS[name], error, **shape) for name, error in errors.items()}


def three(algoformer: float, standard: float, looped: float, **shape: float) -> dict[str, Result]:
    errors = {"algoformer": algoformer, "standard": standard, "looped": looped}
    return made({f"{task}/{name}": error for task in TASKS for name, error in errors.items()}, **shape)


def rates(**slow: float) -> dict[str, Result]:
    """AlgoFormer ahead at the common rate, and these errors on the chain at the lower one."""
    return three(1e-3, 2e-3, 3e-3) | made({f"chain/{name}-slow": error for name, error in slow.items()})


def loops(growths: dict[int, float], kind: str = "fixed") -> dict[str, Result]:
    return {
        f"loops/{kind}-20-{window}": constructed(ITEMS[f"loops/{kind}-20-{window}"], growth=growth)
        for window, growth in growths.items()
    }


def sweep(layers: tuple[float, ...], heads: tuple[float, ...]) -> dict[str, Result]:
    names = [f"layers/algoformer-{count}" for count in (1, 2, 3)]
    names += [f"heads/algoformer-{count}" for count in (1, 2, 4)]
    return made(dict(zip(names, (*layers, *heads), strict=True)))


def same_layers(own: float, other: float) -> dict[str, Result]:
    return made({f"layers/algoformer-{n}": own for n in range(1, 5)}) | made(
        {f"layers/standard-{n}": other for n in range(1, 5)}
    )


def iterating(name: str, *, early: float, late: float, change: int) -> Result:
    """Stays at `early` until iteration `change`, then at `late`."""
    result = constructed(ITEMS[name])
    depths = read_at(result.trained_depth, 200)
    errors = [early if depth < change else late for depth in depths]
    return replace(
        result, errors={"clean": replace(result.main, by_step=curve("iterations", depths, errors, 0.01))}
    )


def linear(early: float, late: float, newton_late: float = 1e-15, descent: float = 0.3) -> dict[str, Result]:
    return {
        "linear/algoformer": iterating("linear/algoformer", early=early, late=late, change=10),
        "linear/fixed-step": iterating("linear/fixed-step", early=0.5, late=1e-2, change=30),
        "linear/gd": iterating("linear/gd", early=descent, late=1e-3, change=30),
        "linear/newton": iterating("linear/newton", early=0.5, late=newton_late, change=14),
    }


def descents(model: float, *, fixed: float, own_step: float) -> dict[str, Result]:
    errors = {"algoformer": model, "fixed-step": fixed, "gd": own_step}
    return made({f"representation/{name}": error for name, error in errors.items()})


def newtons(*changes: int) -> dict[str, Result]:
    groups = ("linear", "linear-noise-0.1", "linear-noise-1")
    return {
        f"{group}/newton": iterating(f"{group}/newton", early=1.0, late=1e-3, change=change)
        for group, change in zip(groups, changes, strict=True)
    }


def other_steps(results: dict[str, Result], name: str) -> Results:
    item = ITEMS[name]
    assert isinstance(item, RunSpec)
    return results | {name: constructed(item.with_steps(77), results[name].error)}


CASES = [
    (1, three(1e-3, 2e-3, 3e-3), "holds"),
    (1, three(1e-3, 2e-3, 3e-3) | made({"chain/looped": 2.0}), "does not hold"),
    (2, three(1e-3, 2e-3, 3e-3), "holds"),
    (2, three(1e-3, 2e-3, 3e-3) | made({"chain/looped": 1e-4}), "does not hold"),
    (2, three(1e-3, 1.02e-3, 3e-3), "not decided"),
    (2, three(1e-3, 2e-3, 3e-3) | made({"chain/looped-seed1": 9e-4}), "not decided"),
    (2, other_steps(three(1e-3, 2e-3, 3e-3), "chain/looped"), "not decided"),
    (2, three(1e-3, 2e-3, 3e-3) | made({"chain/standard-slow": 9e-4}), "not decided"),
    (2, rates(algoformer=1.5e-3, standard=9e-4), "does not hold"),
    (2, rates(algoformer=5e-4, standard=9e-4), "holds"),
    (2, rates(algoformer=5e-3, standard=1.5e-3), "holds"),
    (2, rates(algoformer=1.5e-3, looped=9e-4), "does not hold"),
    (2, made({"chain/algoformer": 1e-3, "chain/looped": 2e-3, "chain/standard-slow": 5e-4}), "not decided"),
    (1, made({"chain/looped": 1e-3}), "not decided"),
    (1, made({"chain/looped": 2.0}), "does not hold"),
    (2, made({"chain/algoformer": 1e-3, "chain/looped": 2e-3}), "not decided"),
    (2, made({"chain/algoformer": 3e-3, "chain/looped": 2e-3}), "does not hold"),
    (3, three(1e-3, 2e-3, 5e-3), "holds"),
    (3, other_steps(three(1e-3, 2e-3, 5e-3), "chain/looped"), "not decided"),
    (3, three(1e-3, 3e-3, 5e-3), "does not hold"),
    (3, three(1e-3, 2e-3, 5e-3) | made({"chain/looped-seed1": 1e-3}), "does not hold"),
    (4, loops({5: 100, 10: 10, 15: 1.2}), "holds"),
    (4, loops({5: 1.2, 10: 10, 15: 100}), "does not hold"),
    (4, loops({5: 1.01, 10: 1.0, 15: 1.0}), "does not hold"),
    (4, other_steps(loops({5: 100, 10: 10, 15: 1.2}), "loops/fixed-20-5"), "not decided"),
    (5, loops({15: 1.0}), "holds"),
    (5, loops({15: 1.01}), "not decided"),
    (5, loops({15: 0.9}), "holds"),
    (5, loops({15: 300.0}), "does not hold"),
    (6, sweep((3e-3, 2e-3, 1e-3), (9e-3, 7e-3, 5e-3)), "holds"),
    (6, sweep((3e-3, 2e-3, 4e-3), (9e-3, 7e-3, 5e-3)), "does not hold"),
    (6, sweep((3e-3, 2e-3, 1.99e-3), (9e-3, 7e-3, 5e-3)), "not decided"),
    (6, made({"layers/algoformer-1": 3e-3, "layers/algoformer-2": 2e-3}), "not decided"),
    (6, made({"layers/algoformer-1": 2e-3, "layers/algoformer-2": 3e-3}), "does not hold"),
    (6, other_steps(sweep((3e-3, 2e-3, 1e-3), (9e-3, 7e-3, 5e-3)), "layers/algoformer-1"), "not decided"),
    (7, same_layers(1e-3, 2e-3), "holds"),
    (7, made({"layers/algoformer-1": 1e-3, "layers/standard-1": 2e-3}), "not decided"),
    (7, same_layers(1e-3, 2e-3) | made({"layers/standard-4": 1e-4}), "does not hold"),
    (7, same_layers(1e-3, 1.01e-3), "not decided"),
    (8, linear(0.1, 1e-3), "holds"),
    (8, linear(0.4, 1e-3), "does not hold"),
    (8, linear(0.1, 1e-3, descent=0.05), "does not hold"),
    (8, linear(0.1, 1e-3, newton_late=1e-2), "does not hold"),
    (9, newtons(14, 14, 14), "does not hold"),
    (9, newtons(14, 20, 28), "holds"),
    (13, descents(1e-3, fixed=0.1, own_step=0.08), "does not hold"),
    (13, descents(0.2, fixed=0.1, own_step=0.08), "not decided"),
    (13, descents(0.09, fixed=0.1, own_step=0.08), "not decided"),
    (13, descents(0.09, fixed=0.08, own_step=0.1), "not decided"),
]


@pytest.mark.parametrize(("number", "results", "outcome"), CASES)
def test_results_decide_as_they_were_made_to(number: int, results: Results, outcome: str) -> None:
    verdict = BY_NUMBER[number].verdict(results)
    assert verdict.outcome == outcome, verdict.because
    assert any(letter.isdigit() for letter in verdict.because), "a verdict gives its numbers"


COUNTED = {10: "holds", 11: "does not hold", 12: "holds"}


@pytest.mark.parametrize("number", range(1, 14))
def test_without_runs_only_what_can_be_counted_is_decided(number: int) -> None:
    verdict = BY_NUMBER[number].verdict({})
    assert verdict.outcome == COUNTED.get(number, "not decided")
    if number not in COUNTED:
        assert verdict.because.startswith("needs ")


def test_the_counts_are_those_of_the_protocol() -> None:
    words = {number: BY_NUMBER[number].verdict({}).because for number in COUNTED}
    assert "9.1%" in words[10]
    assert "44%" in words[10]  # (1 + 15) of 36 layers
    assert "standard 36, looped 50, AlgoFormer 98" in words[11]
    assert "standard 9.48 M, looped 0.79 M, AlgoFormer 2.37 M" in words[12]


@pytest.mark.parametrize("number", [1, 2, 6, 7])
def test_what_was_not_run_is_named_beside_the_numbers_that_there_are(number: int) -> None:
    complete = three(1e-3, 2e-3, 3e-3) | same_layers(1e-3, 9e-3)
    complete |= sweep((3e-3, 2e-3, 1e-3), (9e-3, 7e-3, 5e-3))
    lost = "chain/looped" if number < 3 else "layers/algoformer-3"
    verdict = BY_NUMBER[number].verdict({name: run for name, run in complete.items() if name != lost})
    assert verdict.outcome == "not decided"
    assert f"not run: {lost}" in verdict.because


def test_at_the_small_scale_one_layer_has_four_heads() -> None:
    small = {item.name: item for item in all_items("tiny")}
    results = {name: constructed(small[name]) for name in ("layers/algoformer-1", "heads/algoformer-8")}
    because = BY_NUMBER[6].verdict(results).because
    assert "heads 4: 0.00100 (300 steps), 8: 0.00100 (300 steps)" in because


def test_there_are_thirteen_claims_in_order() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 14))


def test_controls_stand_beside_what_they_control() -> None:
    results = three(1e-3, 2e-3, 3e-3) | made({"chain/standard-3": 4e-3})
    assert "chain beside standard-3: 25%" in BY_NUMBER[2].verdict(results).because


def test_a_missing_run_is_named() -> None:
    with pytest.raises(Missing, match="chain/looped"):
        need({}, "chain/looped")


def test_settling_counts_from_the_last_time_that_the_error_is_off() -> None:
    line = curve("iterations", (1, 2, 3, 4, 5), [1.0, 0.0, 0.5, 0.004, 0.0], 0.1)
    assert iterations_to_settle(line) == 4
