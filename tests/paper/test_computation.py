"""The paper's "computation comparison", protocol 3F rows 10 to 12 and section 3H."""

import pytest

from algoformer.model.cost import cost
from algoformer.model.presets import standard
from paper.command import main
from paper.computation import Share, computation_comparison

COMPARISON = computation_comparison()


def share(setting: str, steps: int) -> Share:
    return next(one for one in COMPARISON.shares if (one.setting, one.steps) == (setting, steps))


@pytest.mark.parametrize(
    ("setting", "steps", "outside", "all_layers"),
    [
        ("inference", 20, 2, 22),
        ("inference", 200, 2, 202),
        ("training forward", 20, 1 + 15, 36),
        ("training forward", 200, 1 + 15, 216),
        ("training step", 20, 3 * (1 + 15), 98),
        ("training step", 200, 3 * (1 + 15), 3 * (1 + 15) + 185 + 45),
    ],
)
def test_the_share_of_pre_and_post(setting: str, steps: int, outside: int, all_layers: int) -> None:
    found = share(setting, steps)
    assert found.layers == pytest.approx(outside / all_layers, rel=1e-12)
    # read-in and read-out are products too, and take a share of a thousandth at most
    assert found.flops == pytest.approx(found.layers, rel=1e-3)
    assert found.flops < found.layers


def test_the_papers_tenth_holds_at_inference_and_not_in_training() -> None:
    assert round(100 * share("inference", 20).layers, 1) == 9.1
    assert round(100 * share("inference", 200).layers, 2) == 0.99
    assert round(100 * share("training forward", 20).layers) == 44


def test_a_training_step_in_units_of_a_layer() -> None:
    units = {name: bill.units for name, bill in COMPARISON.models.items()}
    assert units == {"standard": 36, "looped": 50, "algoformer": 98}


def test_the_models_sizes() -> None:
    sizes = {name: bill.core_parameters for name, bill in COMPARISON.models.items()}
    assert sizes == {"standard": 9_477_632, "looped": 790_272, "algoformer": 2_370_816}


def test_flops_have_the_protocols_size() -> None:
    one = cost(standard(1), dim=20, out=1, context=82, batch=64).parts[1].work.forward
    assert one / 1e9 == pytest.approx(8.7, abs=0.05)
    chain = cost(standard(1), dim=20, out=20, context=287, batch=64).parts[1].work.forward
    assert chain / 1e9 == pytest.approx(34, abs=0.5)
    assert COMPARISON.models["algoformer"].training / 1e12 == pytest.approx(0.85, abs=0.01)


def test_the_table_has_a_line_for_every_part_and_a_total() -> None:
    bill = COMPARISON.models["algoformer"]
    lines = str(bill).splitlines()
    assert [line.split()[0] for line in lines] == [
        "part",
        "read_in",
        "pre",
        "loop",
        "post",
        "read_out",
        "total",
    ]
    assert len({len(line) for line in lines}) == 1
    assert f"{bill.parameters:,}" in lines[-1]


def test_the_command_shows_the_papers_parameter_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["computation"]) == 0
    text = capsys.readouterr().out
    # protocol: block 789,760 and a norm of 512, times 12, 1 and 3
    assert f"{12 * 789_760 + 512:,}" in text
    assert f"{789_760 + 512:,}" in text
    assert f"{3 * (789_760 + 512):,}" in text
