"""Random depth and loss weights where the data are text, and on several processes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from algoformer import programs
from algoformer.data import TextData
from algoformer.data.protocol import Share
from algoformer.depth import Depth
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig, build_model
from algoformer.training.config import sequence_depths, unroll_at
from algoformer.training.step import ProcessGroup, Step
from tests.data.small_text import small_experiment
from training.small import loss_at, small, stepper

PER_SEQUENCE = Depth.parse("poisson:3,per=sequence")


def plain_text(folder: Path, **training: Any) -> Experiment:
    (folder / "book.txt").write_text("the cat sat on the mat\n" * 200)
    data = TextData(files=str(folder / "book.txt"), tokenize="char", context=8, cache=str(folder / "cache"))
    settings = {"steps": 8, "batch_size": 6, "window": 1, "backprop": 2}
    program = programs.algoformer(steps=3, heads=2)
    return Experiment(program, data, width=8, training=TrainConfig(**settings | training))


def test_sequences_of_text_run_as_deep_as_they_were_drawn(tmp_path: Path) -> None:
    step = stepper(plain_text(tmp_path, depth=PER_SEQUENCE))
    loss = loss_at(step, 3)
    depths = sequence_depths(step.training, 3)
    assert len(set(depths)) > 1
    batch, parts = step.batches.current(), []
    for number, depth in enumerate(depths):
        scores = step.model(batch["input_ids"][number : number + 1], Unroll(steps=depth, window=1))
        parts.append(F.cross_entropy(scores[0, 0], batch["targets"][number]))
    torch.testing.assert_close(loss, torch.stack(parts).mean())


def test_losses_of_text_are_weighted_over_iterations(tmp_path: Path) -> None:
    step = stepper(plain_text(tmp_path, window=3, backprop="full", loss_weights="linear"))
    found = loss_at(step, 0)
    batch = step.batches.current()
    scores = step.model(batch["input_ids"], Unroll(steps=3))
    each = [F.cross_entropy(one.flatten(0, 1), batch["targets"].flatten()) for one in scores]
    torch.testing.assert_close(found, (each[0] + 2 * each[1] + 3 * each[2]) / 6)


@pytest.mark.parametrize("kind", ["translation", "labels"])
def test_the_last_iteration_alone_is_a_window_of_one(kind: Any) -> None:
    last = stepper(small_experiment(kind, backprop="full", loss_weights="last"))
    one = stepper(small_experiment(kind, backprop="full", window=1))
    torch.testing.assert_close(loss_at(last, 0), loss_at(one, 0))


def test_batches_without_a_fixed_number_of_sequences_have_one_depth() -> None:
    with pytest.raises(ValueError, match="batches of translation have no fixed number of sequences"):
        small_experiment(depth=PER_SEQUENCE, window=1)


def test_processes_share_the_depths_of_one_draw() -> None:
    experiment = small(depth=PER_SEQUENCE, window=1, batch_size=6)

    class Rank(ProcessGroup):
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def share(self) -> Share:
            return Share(rank=self.rank, processes=2)

    found, unrolls = [], set()
    for rank in range(2):
        step = Step(experiment, build_model(experiment), Rank(rank))
        step.prepare(7)
        assert step.depths is not None
        found += step.depths.tolist()
        unrolls.add(step.unroll)
    assert found == list(sequence_depths(experiment.training, 7))
    assert unrolls == {unroll_at(experiment.program, experiment.training, 7)}
