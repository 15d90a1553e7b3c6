import pytest
import torch

from algoformer.prompt import Prompt


def pairs(batch: int = 2, points: int = 4, dim: int = 3, out: int = 1) -> Prompt:
    numbers = torch.Generator().manual_seed(0)
    xs = torch.randn(batch, points, dim, generator=numbers)
    ys = torch.randn(batch, points, out, generator=numbers)
    return Prompt.of_pairs(xs, ys, clean=ys - 1)


def test_pairs_are_interleaved_and_every_label_is_asked_for_at_its_x() -> None:
    prompt = pairs(out=2)
    for point, read in enumerate(prompt.reads):
        assert read == 2 * point
        torch.testing.assert_close(prompt.rows[:, read + 1, :2], prompt.targets[:, point])
        assert not prompt.rows[:, read + 1, 2:].any()


def test_the_label_stands_after_the_row_where_it_is_asked_for() -> None:
    prompt = pairs()
    changed = Prompt.of_pairs(prompt.part(0), prompt.targets + 1)
    for read in prompt.reads:
        moved = (changed.rows != prompt.rows).any(-1).any(0)
        assert not moved[read]
        assert moved[read + 1]


def test_sizes_are_named() -> None:
    prompt = pairs(batch=5, points=4, dim=3, out=2)
    assert (prompt.batch, prompt.points, prompt.dim, prompt.out, prompt.samples) == (5, 4, 3, 2, 4)


@pytest.mark.parametrize("point", [0, 2, 3, -1, -4])
def test_a_prefix_asks_one_question_and_shows_nothing_behind_it(point: int) -> None:
    prompt = pairs()
    prefix = prompt.prefix(point)
    place = range(4)[point]
    assert prefix.reads == (2 * place,)
    assert prefix.clean is not None
    assert prompt.clean is not None
    torch.testing.assert_close(prefix.rows, prompt.rows[:, : 2 * place + 1])
    torch.testing.assert_close(prefix.targets, prompt.targets[:, [place]])
    torch.testing.assert_close(prefix.clean, prompt.clean[:, [place]])
    assert prefix.samples == place + 1
    assert prefix.parts == 2


def test_a_prefix_of_a_prefix_is_itself() -> None:
    once = pairs().prefix(1)
    assert once.prefix().reads == once.reads
    assert torch.equal(once.prefix().rows, once.rows)


def test_the_part_of_a_sample_that_was_cut_off_is_zero() -> None:
    prefix = pairs().prefix(2)
    labels = prefix.part(1)
    assert labels.shape == (2, 3, 3)
    assert not labels[:, -1].any()
    torch.testing.assert_close(labels[:, :2, :1], pairs().targets[:, :2])
    torch.testing.assert_close(prefix.part(0), pairs().part(0)[:, :3])


def test_select_takes_prompts_and_leaves_the_questions() -> None:
    prompt = pairs(batch=4)
    for index in (slice(1, 3), torch.tensor([3, 0]), torch.tensor([True, False, True, False])):
        chosen = prompt.select(index)
        assert chosen.batch == 2
        assert chosen.reads == prompt.reads
        assert chosen.clean is not None
        assert prompt.clean is not None
        assert torch.equal(chosen.rows, prompt.rows[index])
        assert torch.equal(chosen.targets, prompt.targets[index])
        assert torch.equal(chosen.clean, prompt.clean[index])


def test_to_changes_precision_of_everything_and_of_nothing_else() -> None:
    prompt = pairs()
    double = prompt.to(torch.float64)
    assert double.clean is not None
    assert {double.rows.dtype, double.targets.dtype, double.clean.dtype} == {torch.float64}
    assert double.reads == prompt.reads
    assert prompt.rows.dtype == torch.float32
    assert prompt.to("cpu").rows.device.type == "cpu"
    assert Prompt.of_pairs(prompt.part(0), prompt.targets).to(torch.float64).clean is None


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": 0}, "parts=0"),
        ({"reads": (0, 1)}, "3 targets need as many reads, got 2"),
        ({"reads": (0, 2, 1)}, "rising"),
        ({"reads": (0, 1, 1)}, "rising"),
        ({"reads": (-1, 1, 2)}, r"lie in 0\.\.5, got -1\.\.2"),
        ({"reads": (0, 1, 6)}, r"lie in 0\.\.5, got 0\.\.6"),
        ({"targets": torch.zeros(3, 3, 1)}, "rows hold 2 prompts, targets 3"),
    ],
)
def test_a_prompt_that_contradicts_itself_is_refused(changes: dict[str, object], message: str) -> None:
    whole = {"rows": torch.zeros(2, 6, 4), "targets": torch.zeros(2, 3, 1), "reads": (0, 1, 2)}
    with pytest.raises(ValueError, match=message):
        Prompt(**{**whole, **changes})


def test_a_prompt_without_questions_is_refused() -> None:
    with pytest.raises(ValueError, match="rising"):
        Prompt(rows=torch.zeros(2, 6, 4), targets=torch.zeros(2, 0, 1), reads=())


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_the_scale_of_errors_is_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be positive, got"):
        Prompt(rows=torch.zeros(2, 6, 4), targets=torch.zeros(2, 1, 1), reads=(0,), scale=scale)


@pytest.mark.usefixtures("as_a_user")
def test_clean_targets_have_the_shape_of_the_targets() -> None:
    with pytest.raises(ValueError, match="clean has shape"):
        Prompt(
            rows=torch.zeros(2, 6, 4),
            targets=torch.zeros(2, 1, 2),
            reads=(0,),
            clean=torch.zeros(2, 1, 1),
        )


def test_a_label_wider_than_the_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="label of 3 numbers does not fit into rows of dim=2"):
        Prompt.of_pairs(torch.zeros(1, 2, 2), torch.zeros(1, 2, 3))


def test_parts_and_points_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match=r"part must lie in 0\.\.1, got 2"):
        pairs().part(2)
    with pytest.raises(ValueError, match="got -5"):
        pairs().prefix(-5)
    with pytest.raises(ValueError, match="got 4"):
        pairs().prefix(4)


def test_a_prompt_prints_on_one_line() -> None:
    prompt = Prompt.of_pairs(torch.zeros(64, 41, 20), torch.zeros(64, 41, 1))
    assert repr(prompt) == (
        "Prompt(64 prompts of 82 rows × 20, 41 questions with answers of 1, parts=2, float32 on cpu)"
    )
