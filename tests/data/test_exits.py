"""Losses of loops that learn when to halt, in the one engine: prompts, text, translation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from algoformer.data import TextData
from algoformer.depth import Depth
from algoformer.model import Gate, Layers, Loop, Program
from algoformer.model.halting import entropy, exit_log_probabilities, gate_targets_loss
from algoformer.prompt import Prompt
from algoformer.tasks.symbols import PuzzleTask, one_hot
from algoformer.trace import Unroll
from algoformer.training import Experiment, TrainConfig, build_model, load_checkpoint, train
from algoformer.training.fused import why_not_fused
from tests.data.small_text import small_experiment
from tests.training.small import loss_at, same_weights, small, stepper, told


def halting(halt: str, **words: Any) -> Program:
    return Program(
        Layers(1, heads=2, name="pre"),
        Loop(Layers(1, heads=2), 3, name="loop", halt=halt, **words),
        Layers(1, heads=2, name="post"),
    )


def inside(program: Program) -> Program:
    return Program(Loop(program, 2))


def stop_at(step: int) -> Any:
    """End a run in its middle."""

    def stop(done: int, total: int, metrics: Any) -> None:
        if done >= step:
            raise RuntimeError("stop")

    return stop


def text_experiment(folder: Path, halt: str = "gate", **training: Any) -> Experiment:
    pytest.importorskip("tokenizers", reason="the extra `text` is not installed")
    file = folder / "text.txt"
    file.write_text("the cat sat on the mat and the dog ran to the cat.\n\n" * 200, encoding="utf-8")
    data = TextData(files=str(file), tokenize="char", context=12, cache=str(folder))
    settings: dict[str, Any] = {"steps": 6, "batch_size": 4, "window": 3, "lr": 1e-2, "log_every": 2}
    return Experiment(
        program=halting(halt), data=data, width=16, training=TrainConfig(**(settings | training))
    )


def test_the_exit_loss_of_prompts_is_the_expectation_question_by_question() -> None:
    step = stepper(small(halting("gate"), window=3, loss="exit", exit_entropy=0.2))
    step.model.double()
    shown = step.batches.current().prompt.to(torch.float64)
    batch = replace(step.batches.current(), prompt=shown)
    trace = step.model(shown, Unroll(steps=3))
    total = 0.0
    for place in range(shown.batch):
        for question in range(shown.targets.shape[1]):
            gates = trace.halting[:, place, question]
            p = [gates[0].sigmoid(), (1 - gates[0].sigmoid()) * gates[1].sigmoid()]
            p.append(1 - p[0] - p[1])
            moves = trace.predictions[:, place, question] - shown.targets[place, question]
            total += sum(one * loss for one, loss in zip(p, moves.square().mean(dim=-1), strict=True))
            total += 0.2 * sum(one * one.log() for one in p)
    found = step.data.loss(step.model, batch, step.unroll, step.training)
    expected = total / (shown.batch * shown.targets.shape[1])
    torch.testing.assert_close(found.value, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["text", "translation"])
@pytest.mark.parametrize("loss", ["exit", "gate"])
def test_losses_of_tokens_are_those_of_all_scores_at_once(kind: str, loss: str, tmp_path: Path) -> None:
    training = {"loss": loss, "window": 3, "exit_entropy": 0.3, "precision": "fp32"}
    if kind == "text":
        experiment = text_experiment(tmp_path, **training)
    else:
        base = small_experiment()
        experiment = Experiment(
            program=halting("gate"), data=base.data, width=16, training=replace(base.training, **training)
        )
    step = stepper(experiment)
    step.model.double()
    batch = step.batches.current()
    given = {"prefix": batch.get("prefix")}
    states, gates = step.model.states_and_halting(batch["input_ids"], Unroll(steps=3), **given)
    targets, mask = batch["targets"].flatten(), torch.ones_like(batch["targets"].flatten(), dtype=torch.bool)
    if kind == "translation":
        mask = torch.zeros_like(mask)
        mask[batch["positions"][batch["counts"]]] = True
    scores = step.model.scores(states).flatten(1, 2)[:, mask]
    losses = torch.stack([F.cross_entropy(one, targets[mask], reduction="none") for one in scores])
    gates = gates.flatten(1)[:, mask]
    if loss == "exit":
        exits = exit_log_probabilities(gates)
        expected = ((exits.exp() * losses).sum(dim=0) - 0.3 * entropy(exits)).mean()
    else:
        expected = gate_targets_loss(gates, losses).mean()
    found = step.data.loss(step.model, batch, step.unroll, step.training)
    torch.testing.assert_close(found.value, expected, rtol=0, atol=1e-10)
    wanted = torch.autograd.grad(expected, list(step.model.parameters()), allow_unused=True)
    given = torch.autograd.grad(found.value, list(step.model.parameters()), allow_unused=True)
    for (name, _), one, other in zip(step.model.named_parameters(), given, wanted, strict=True):
        if loss == "gate" and "halting" not in name:
            assert one is None, "the model is frozen"
        else:
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["prompts", "text"])
def test_adaptive_time_pays_for_its_iterations(kind: str, tmp_path: Path) -> None:
    losses = []
    for cost in (0.0, 0.5):
        if kind == "prompts":
            step = stepper(small(halting("act"), window=1, backprop="full", ponder_cost=cost))
            halting_of = step.model(step.batches.current().prompt, Unroll(steps=3)).halting[-1]
        else:
            step = stepper(text_experiment(tmp_path, "act", ponder_cost=cost))
            ids = step.batches.current()["input_ids"]
            halting_of = step.model.states_and_halting(ids, Unroll(steps=3))[1][-1]
        losses.append(loss_at(step))
    torch.testing.assert_close(losses[1] - losses[0], 0.5 * halting_of.mean(), rtol=0, atol=1e-5)
    assert 1 < halting_of.mean() <= 4


@pytest.mark.parametrize("training", [{}, {"precision": "bf16"}, {"optimizer": "muon"}])
@pytest.mark.parametrize("loss", ["exit", "gate"])
def test_runs_with_a_gate_resume_and_come_back_from_their_file(
    loss: str, training: dict[str, Any], tmp_path: Path
) -> None:
    experiment = small(halting("gate"), window=3, loss=loss, **training)
    whole = train(experiment, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="stop"):
        train(experiment, tmp_path / "parts", callbacks=told(stop_at(10)))
    resumed = train(experiment, tmp_path / "parts", resume=True)
    assert same_weights(resumed.model, whole.model)
    assert same_weights(load_checkpoint(tmp_path / "whole" / "checkpoint.safetensors").model, whole.model)
    fresh = stepper(experiment).model
    moved = {
        "halting" in name
        for (name, one), other in zip(fresh.named_parameters(), whole.model.parameters(), strict=True)
        if not torch.equal(one, other)
    }
    assert moved == ({True} if loss == "gate" else {True, False}), "stage two moves the gate alone"


@pytest.mark.parametrize("halt", ["gate", "act"])
def test_the_kernels_refuse_a_loop_that_halts(halt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    experiment = replace(small(halting(halt), window=3, loss="exit" if halt == "gate" else "mean"), width=64)
    assert why_not_fused(build_model(experiment)) == f"there is no kernel for a loop with halt {halt!r}"


@dataclass(frozen=True, kw_only=True)
class Pointers(PuzzleTask):
    """Follow pointers from a start: once for easy prompts, three times for hard ones."""

    places: int = 4

    @property
    def dim(self) -> int:
        return 2 * self.places + 2

    @property
    def out(self) -> int:
        return self.places

    @property
    def context(self) -> int:
        return self.places + 1

    @property
    def points(self) -> int:
        return 1

    def textbook_answers(self, prompt: Prompt) -> Iterator[torch.Tensor]:
        yield prompt.targets

    def sample(
        self,
        batch: int,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        active_dims: Any = None,
    ) -> Prompt:
        count = self.places
        pointers = torch.rand(batch, count, generator=generator).argsort(dim=1)
        at = torch.randint(count, (batch, 1), generator=generator)
        hard = torch.randint(2, (batch, 1), generator=generator)
        rows = torch.zeros(batch, count + 1, self.dim, dtype=dtype)
        rows[:, :count, :count] = torch.eye(count)
        rows[:, :count, count : 2 * count] = one_hot(pointers, count, dtype)
        rows[:, count:, count : 2 * count] = one_hot(at, count, dtype)
        rows[:, count:, 2 * count :] = one_hot(hard, 2, dtype)
        once = pointers.gather(1, at)
        thrice = pointers.gather(1, pointers.gather(1, once))
        answer = one_hot(torch.where(hard == 1, thrice, once), count, dtype)
        return Prompt(
            rows=rows, targets=answer, clean=answer, reads=(count,), classes=True, answers_in_rows=False
        )


def test_a_gate_learns_to_exit_early_where_a_prompt_is_easy() -> None:
    task = Pointers()
    program = Program(Loop(Layers(1, heads=2, causal=False, positions="none"), 4, "none", halt="gate"))
    training = TrainConfig(
        steps=400,
        batch_size=64,
        lr=3e-3,
        optimizer="adamw",
        schedule="cosine",
        warmup=0.1,
        window=4,
        loss="exit",
        exit_entropy=0.02,
    )
    model: Any = train(Experiment(program=program, data=task, width=32, training=training)).model
    shown = task.sample(256, generator=torch.Generator().manual_seed(99))
    hard = shown.rows[:, -1, -1] == 1
    trace = model(shown, stop=Gate(0.5))
    right = (trace.final.argmax(dim=-1) == shown.targets.argmax(dim=-1))[:, 0].float()
    easy, difficult = (trace.iterations[chosen].float().mean() for chosen in (~hard, hard))
    assert easy < 2 < 3 < difficult
    assert right.mean() > 0.9


@pytest.mark.parametrize(
    ("program", "training", "words"),
    [
        (halting("none"), {"loss": "exit", "window": 3}, "which the loop lacks; use Loop"),
        (halting("act"), {"loss": "gate", "window": 3}, "which the loop lacks"),
        (halting("gate"), {"loss": "mean", "window": 3}, "does not train the loop's exit gate"),
        (halting("gate"), {"loss": "exit", "window": 2}, "set window=3"),
        (halting("gate"), {"loss": "exit", "window": 3, "burn_in": (1,)}, "leave out burn_in"),
        (
            halting("gate"),
            {"loss": "exit", "window": 3, "depth": Depth.parse("poisson:2")},
            "must not draw more than the window of 3, got poisson:2; add ,most=3",
        ),
        (halting("gate"), {"loss": "gate", "window": 3, "depth": Depth.parse("list:2,4")}, "list:2,4; add"),
        (halting("gate"), {"loss": "exit", "window": 3, "loss_weights": "last"}, "leave out loss_weights"),
        (
            halting("gate"),
            {"loss": "gate", "window": 3, "optimizer": "adamw", "weight_decay": 0.1},
            "moves the gate alone, got weight_decay=0.1",
        ),
        (
            inside(halting("gate")),
            {"loss": "mean"},
            "halt='gate' of the loop '0/loop' is not",
        ),
        (inside(halting("act")), {"loss": "mean"}, "or set ponder_cost=0"),
    ],
)
def test_losses_that_do_not_fit_are_refused(program: Program, training: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small(program, **training)


def test_an_exit_gate_is_trained_at_every_depth_up_to_its_window() -> None:
    for word in ("list:1,3", "poisson:3,most=3"):
        assert train(small(halting("gate"), loss="exit", window=3, depth=Depth.parse(word))).finished


@pytest.mark.parametrize("name", ["exit_entropy", "ponder_cost"])
def test_negative_weights_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must not be negative, got -1"):
        TrainConfig(**{name: -1.0})


def test_labels_of_whole_texts_have_no_gate() -> None:
    experiment = small_experiment("labels")
    program = Program(Loop(Layers(1, heads=2, causal=False), 2, halt="act"))
    with pytest.raises(ValueError, match="a label belongs to a whole text; leave out halt"):
        replace(experiment, program=program)
