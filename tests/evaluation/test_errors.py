from dataclasses import replace

import numpy as np
import pytest
import torch

from algoformer.evaluation.errors import Errors, measure, samples_seen
from algoformer.evaluation.solvers import rows_at_once
from algoformer.prompt import Prompt
from algoformer.trace import Trace, Unroll, constant_trace
from evaluation.known import Off, chain, pairs, series


def measured(solver: Off, prompt: Prompt, unroll: Unroll, **options: object) -> Errors:
    settings: dict = {"against": ("clean",), "batch": 128, "at_once": 1 << 16} | options
    depths = range(unroll.first_step, unroll.steps + 1)
    prompt = replace(prompt, scale=2.0)
    return measure(solver, prompt, depths, whole={unroll.steps}, **settings)[settings["against"][0]]


def test_pairs_are_counted_by_the_pairs_before_them() -> None:
    errors = measured(Off((1.0, 2.0, 4.0)), pairs(), Unroll(steps=1))
    assert errors.samples == (0, 1, 2)
    np.testing.assert_allclose(errors.by_sample[1], [[0.5, 2.0, 8.0]] * 2)
    np.testing.assert_allclose(errors.by_depth, [[8.0]] * 2)


def test_the_layers_of_a_chain_are_averaged_within_their_sample() -> None:
    # two layers a sample, two numbers an answer: (o² + p²) / 2 layers · 2 numbers / scale 2
    errors = measured(Off((1.0, 3.0, 2.0, 2.0, 0.0, 4.0)), chain(), Unroll(steps=2))
    assert errors.samples == (0, 1, 2)
    np.testing.assert_allclose(errors.by_sample[2], [[5.0 / 4, 4.0 / 4, 8.0 / 4]] * 2)
    np.testing.assert_allclose(errors.by_depth, [[8.0, 2.0]] * 2)


def test_a_state_of_a_series_is_counted_by_the_states_shown() -> None:
    prompt = series(length=5, order=3)
    assert samples_seen(prompt) == (3, 4, 5)
    errors = measured(Off((1.0, 2.0, 3.0)), prompt, Unroll(steps=1))
    np.testing.assert_allclose(errors.by_sample[1], [[1.0, 4.0, 9.0]] * 2)


def test_only_the_window_is_read() -> None:
    errors = measured(Off((1.0, 1.0, 6.0)), pairs(), Unroll(steps=6, window=2))
    assert errors.depths == (5, 6)
    np.testing.assert_allclose(errors.by_depth, [[36 / 25 / 2, 0.5]] * 2)


@pytest.mark.parametrize("batch", [1, 3, 7, 128])
@pytest.mark.parametrize("at_once", [1, 25, 60, 1 << 20])
def test_neither_batches_nor_pieces_change_the_numbers(batch: int, at_once: int) -> None:
    prompt, unroll = pairs(batch=7, points=4), Unroll(steps=9, window=7)
    prompt = prompt.select(torch.tensor([3, 1, 0, 6, 5, 2, 4]))
    offsets = (0.5, 1.0, 2.0, 3.0)
    whole = measured(Off(offsets), prompt, unroll)
    parts = measured(Off(offsets), prompt, unroll, batch=batch, at_once=at_once)
    assert (parts.samples, parts.depths) == (whole.samples, whole.depths)
    np.testing.assert_array_equal(parts.by_sample[9], whole.by_sample[9])
    np.testing.assert_array_equal(parts.by_depth, whole.by_depth)


@pytest.mark.parametrize("at_once", [8, 24, 100, 1000])
def test_a_solver_is_never_asked_for_more_than_allowed(at_once: int) -> None:
    solver, prompt = Off((1.0,) * 4), pairs(batch=6, points=4)
    measured(solver, prompt, Unroll(steps=30), at_once=at_once)
    assert all(size * unroll.length * 8 <= at_once for size, unroll in solver.calls)


def test_a_thousand_iterations_on_a_chain_fit_into_a_fixed_allowance() -> None:
    prompt = chain(batch=2, samples=41, layers=6, dim=1)
    assert prompt.rows.shape[1] == 287
    solver = Off((1.0,) * prompt.points)
    allowed = rows_at_once(solver, prompt)
    errors = measured(solver, prompt, Unroll(steps=1000), at_once=allowed)
    assert errors.by_depth.shape == (2, 1000)
    assert max(size * unroll.length * 287 for size, unroll in solver.calls) <= allowed
    np.testing.assert_allclose(errors.by_depth[0], 0.5 / np.arange(1, 1001) ** 2, rtol=1e-8, atol=0)


def test_progress_rises_to_the_total() -> None:
    told: list[tuple[int, int]] = []
    measured(
        Off((1.0,) * 3),
        pairs(batch=5),
        Unroll(steps=4),
        batch=2,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(8, 20), (16, 20), (20, 20)]


def test_nan_and_infinity_stay_where_they_are() -> None:
    def sick(prompt: Prompt, unroll: Unroll) -> Trace:
        answer = prompt.targets.clone()
        answer[0, 1] = torch.nan
        answer[1, 2] = torch.inf
        return constant_trace(answer, unroll)

    errors = measured(sick, pairs(), Unroll(steps=2))
    np.testing.assert_array_equal(errors.by_sample[2], [[0, np.nan, 0], [0, 0, np.inf]])
    np.testing.assert_array_equal(errors.by_depth, [[0, 0], [np.inf, np.inf]])


def test_clean_answers_must_be_there() -> None:
    prompt = Prompt.of_pairs(torch.ones(1, 2, 3), torch.ones(1, 2, 1))
    with pytest.raises(ValueError, match="against='shown'"):
        measured(Off((1.0, 1.0)), prompt, Unroll(steps=1))
    measured(Off((1.0, 1.0)), prompt, Unroll(steps=1), against=("shown",))


def test_an_unknown_measure_is_refused(as_a_user: None) -> None:
    with pytest.raises(ValueError, match="'clean' or 'shown'"):
        measured(Off((1.0,) * 3), pairs(), Unroll(steps=1), against=("noisy",))


def test_answers_of_the_wrong_shape_are_refused() -> None:
    def short(prompt: Prompt, unroll: Unroll) -> Trace:
        return Trace(predictions=prompt.targets[None, :, :1])

    with pytest.raises(ValueError, match=r"shape \(1, 2, 1, 1\) instead of \(1, 2, 3, 1\)"):
        measured(short, pairs(), Unroll(steps=1))


@pytest.mark.parametrize("name", ["batch", "at_once"])
def test_nothing_at_once_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        measured(Off((1.0,) * 3), pairs(), Unroll(steps=1), **{name: 0})
