"""Training with random depth, weights over iterations, segments and initial weights by unrolled depth."""

import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from algoformer import AlgoFormer, programs, tasks
from algoformer.config import iteration_shares
from algoformer.depth import Depth
from algoformer.model.program import Layers, Loop, Parallel, Program
from algoformer.trace import Carry, Unroll
from algoformer.training import build_model, train
from algoformer.training.config import sequence_depths, unroll_at
from algoformer.training.optimizer import ModelOptimizer
from training.small import loss_at, same_weights, small, stepper, told

ONE, PLAIN = Loop(Layers(1, heads=2), steps=2), programs.standard(1, heads=2)
NESTED = programs.nested(steps=3, inner_steps=2, heads=2)

RECIPES: dict[str, dict[str, Any]] = {
    "poisson": {"depth": Depth.parse("poisson:4")},
    "sequence": {"depth": Depth.parse("lognormal:4,sigma=0.5,per=sequence"), "window": 1, "backprop": 2},
    "inner": {"program": NESTED, "inner_depth": Depth.parse("list:1,3"), "depth": Depth.parse("list:2,4")},
    "segments": {"segments": 3, "ema": 0.9, "optimizer": "adamw", "loss_weights": "linear"},
    "unrolled": {"init": "unrolled", "loss_weights": (1.0, 2.0)},
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_stopped_run_ends_with_the_same_weights(tmp_path: Path, name: str) -> None:
    experiment = small(**{"steps": 8, "log_every": 2, "checkpoint_every": 100, **RECIPES[name]})

    def stop(done: int, total: int, metrics: Any) -> None:
        if done == 4:
            raise KeyboardInterrupt

    whole = train(experiment)
    with pytest.raises(KeyboardInterrupt):
        train(experiment, tmp_path / "run", callbacks=told(stop))
    rest = train(experiment, tmp_path / "run", resume=True)
    assert same_weights(whole.model, rest.model)


def test_drawn_depths_have_the_mean_of_their_distribution() -> None:
    experiment = small(depth=Depth.parse("poisson:9"), steps=2000, backprop="full")
    unrolls = [unroll_at(experiment.program, experiment.training, step) for step in range(2000)]
    assert statistics.fmean(one.steps for one in unrolls) == pytest.approx(9, abs=5 * math.sqrt(8 / 2000))
    assert all(one.grad_steps == one.steps and one.window == min(2, one.steps) for one in unrolls)


def test_burn_in_and_the_curriculum_give_way_to_a_depth() -> None:
    experiment = small(depth=Depth.parse("fixed:7"), burn_in=(50,), backprop=5)
    unroll = unroll_at(experiment.program, experiment.training, 3)
    assert (unroll.steps, unroll.window, unroll.grad_steps) == (7, 2, 5)


def test_a_number_of_tracked_iterations_is_cut_at_the_depth() -> None:
    experiment = small(backprop=9)
    unroll = unroll_at(experiment.program, experiment.training, 0)
    assert (unroll.steps, unroll.grad_steps) == (3, 3)


def test_inner_loops_are_drawn_apart_from_the_outer_one() -> None:
    experiment = small(**RECIPES["inner"], steps=200)
    unrolls = [unroll_at(experiment.program, experiment.training, step) for step in range(200)]
    pairs = {(one.steps, one.inner["loop/inner"]) for one in unrolls}
    assert pairs == {(2, 1), (2, 3), (4, 1), (4, 3)}


def test_every_sequence_runs_as_deep_as_it_was_drawn() -> None:
    experiment = small(**RECIPES["sequence"])
    step = stepper(experiment)
    loss = loss_at(step, 5)
    depths = sequence_depths(experiment.training, 5)
    assert step.depths is not None
    assert step.depths.tolist() == list(depths)
    assert len(set(depths)) > 1
    step.batches.select(5)
    prompt = step.batches.current().prompt
    errors = [
        (step.model(one, Unroll(steps=depth, window=1)).final - one.targets).square().mean()
        for number, depth in enumerate(depths)
        for one in [prompt.select(slice(number, number + 1))]
    ]
    torch.testing.assert_close(loss, torch.stack(errors).mean())


def test_segments_update_the_weights_one_after_the_other_from_a_carried_state() -> None:
    experiment = small(segments=3, lr=0.01)
    step = stepper(experiment)
    step.run(0)
    model = build_model(experiment)
    optimizer, carry = ModelOptimizer(model, experiment.training), Carry()
    optimizer.set_rate(0.01)
    reference = stepper(small(lr=0.01))
    reference.batches.select(0)
    batch = reference.batches.current()
    for _ in range(3):
        unroll = replace(unroll_at(experiment.program, experiment.training, 0), carry=carry)
        value = experiment.data.loss(model, batch, unroll, experiment.training).value
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert same_weights(step.model, model)


def test_losses_are_weighted_over_iterations() -> None:
    for loss in ("mean", "log"):
        values = {
            words: loss_at(stepper(small(window=3, backprop="full", loss=loss, loss_weights=words)))
            for words in ("mean", "linear", "last", (1.0, 0.0, 3.0), (1.0, 1.0, 1.0))
        }
        fixed = [Depth(kind="fixed", mean=depth) for depth in (1.0, 2.0, 3.0)]
        one, two, three = (loss_at(stepper(small(window=1, depth=depth, loss=loss))) for depth in fixed)
        torch.testing.assert_close(values["mean"], (one + two + three) / 3)
        torch.testing.assert_close(values["linear"], (one + 2 * two + 3 * three) / 6)
        torch.testing.assert_close(values["last"], three)
        torch.testing.assert_close(values[1.0, 0.0, 3.0], (one + 3 * three) / 4)
        torch.testing.assert_close(values[1.0, 1.0, 1.0], values["mean"])


def test_shares_are_those_of_the_last_iterations_where_the_window_is_cut() -> None:
    training = small(window=3, loss_weights=(5.0, 1.0, 3.0)).training
    assert iteration_shares(training, 2) == (0.25, 0.75)
    assert iteration_shares(small(window=3, loss_weights="last").training, 2) == (0.0, 1.0)


@pytest.mark.parametrize(("outer", "stage_steps"), [(2, 1), (5, 1), (4, 2)])
def test_stages_are_compared_as_far_as_the_outer_loop_ran(outer: int, stage_steps: int) -> None:
    task = tasks.ChainOfSolves(size=3, rounds=3)
    program = Program(Loop(Layers(1, heads=2, causal=False), steps=6, name="loop"))
    experiment = small(
        program,
        task,
        loss="stages",
        window=6,
        backprop="full",
        stage_steps=stage_steps,
        depth=Depth(kind="fixed", mean=float(outer)),
    )
    step = stepper(experiment)
    value = loss_at(step)
    step.batches.select(0)
    prompt = step.batches.current().prompt
    answers = step.model(prompt, Unroll(steps=outer)).predictions
    wanted = [
        (answers[stage * stage_steps - 1] - prompt.stages[stage - 1]).square().mean()
        for stage in (1, 2, 3)
        if stage * stage_steps <= outer
    ]
    torch.testing.assert_close(value, torch.stack(wanted).mean())


def test_initial_output_projections_are_those_of_the_unrolled_depth() -> None:
    program = programs.nested(pre=2, inner=3, outer=1, post=1, steps=5, inner_steps=4, heads=2)
    calls = 2 + 5 * (1 + 4 * 3) + 1
    plain, scaled = (
        build_model(replace_width(small(program, window=1, init=init))) for init in ("layers", "unrolled")
    )
    others = dict(plain.named_parameters())
    for name, weight in scaled.named_parameters():
        if name.endswith(("attention.output.weight", "feedforward.down.weight")):
            assert weight.std().item() == pytest.approx(0.02 / math.sqrt(2 * calls), rel=0.1)
        else:
            assert torch.equal(weight, others[name])


def test_weights_by_fan_in_are_those_of_a_plain_linear_map() -> None:
    program = programs.algoformer(pre=2, loop=2, post=1, steps=3, heads=2)
    plain, drawn, again = (
        build_model(replace_width(small(program, window=1, init=init)))
        for init in ("layers", "fan_in", "fan_in")
    )
    others, same = dict(plain.named_parameters()), dict(again.named_parameters())
    stds = {}
    for name, weight in drawn.named_parameters():
        assert torch.equal(weight, same[name])
        if ".layers." in name and weight.ndim == 2:
            # a uniform distribution within ±1/√n
            stds[name] = weight.std().item() * math.sqrt(3 * weight.shape[1])
            assert weight.abs().max() <= 1 / math.sqrt(weight.shape[1])
        else:
            assert torch.equal(weight, others[name])
    assert len(stds) == 5 * 4
    assert list(stds.values()) == pytest.approx([1.0] * len(stds), rel=0.05)


def replace_width(experiment: Any) -> Any:
    return type(experiment)(experiment.program, experiment.data, 64, experiment.training)


def test_the_unrolled_initialization_keeps_the_stream_from_growing() -> None:
    layers = Layers(2, heads=2, final_norm=False, positions="none")
    program = Program(Loop(layers, steps=64, inject="none", name="loop"))
    task = tasks.LinearRegression(dim=2, points=4)
    growth = {}
    for init in ("layers", "unrolled"):
        model = build_model(replace_width(small(program, window=1, backprop="full", init=init)))
        assert isinstance(model, AlgoFormer)
        prompt = task.sample(64, generator=torch.Generator().manual_seed(0))
        entry = model.read_in(prompt.rows)
        growth[init] = (model.body(entry) - entry).square().mean().item()
    # the sum of 128 updates of a shared layer is 128 / 2 times smaller in its variance
    assert growth["unrolled"] < growth["layers"] / 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": Depth.parse("poisson:4,per=sequence")}, "set window=1, got 2"),
        ({"inner_depth": Depth.parse("poisson:4")}, "inner_depth needs a program with a loop besides"),
        (
            {"program": programs.trm(1, heads=2), "inner_depth": Depth.parse("poisson:4")},
            "at least 2 steps, got 1",
        ),
        ({"program": programs.universal(1, heads=2, halt="act"), "segments": 2}, "segments: with halt='act'"),
        (
            {"program": NESTED, "inner_depth": Depth.parse("poisson:4,per=sequence")},
            "one depth for a whole batch",
        ),
        ({"backprop": 1}, "backprop must reach through the window of 2 iterations, got 1"),
        ({"loss_weights": (1.0,)}, "loss_weights needs 2 numbers"),
        ({"loss_weights": (1.0, 0.0)}, "the last one positive"),
        ({"loss_weights": (-1.0, 1.0)}, "none negative"),
        ({"loss": "stages", "loss_weights": "last"}, "leave out loss_weights"),
        # the stages would begin after the extra iterations, or again with every segment
        ({"loss": "stages", "burn_in": (0, 3)}, "set burn_in=0 and segments=1, got .0, 3. and 1"),
        ({"loss": "stages", "segments": 2}, "set burn_in=0 and segments=1"),
        ({"stage_steps": 2}, "for loss='stages' only"),
        ({"segments": 0}, "segments must lie in 1"),
        ({"program": programs.standard(1, heads=2), "segments": 2}, "need a program with a loop"),
        (
            {"program": programs.standard(1, heads=2), "depth": Depth.parse("fixed:2")},
            "need a program with a loop",
        ),
        (
            {
                "program": Program(
                    Parallel(Loop(Layers(1, heads=2), steps=2), Loop(Layers(1, heads=2), steps=2))
                ),
                "segments": 2,
            },
            "branches side by side",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**settings)
