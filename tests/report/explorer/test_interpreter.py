"""The model in the page gives the answers that it gives in PyTorch."""

import json
from pathlib import Path

import pytest
import torch

from algoformer import programs
from algoformer.model import Layers, Loop, Parallel, Program
from algoformer.model.halting import HALTING
from algoformer.model.injections import INJECTIONS, STARTS
from algoformer.model.loop_models import LOOP_MODELS
from algoformer.model.presets import PRESETS
from algoformer.nn import ACTIVATIONS, NORMS, POSITIONS, QK_NORMS
from algoformer.nn.tables import PLACES
from algoformer.prompt import Prompt
from algoformer.report.explorer import Exploration
from algoformer.theory import Constants, Sizes
from algoformer.theory.statement import Case
from algoformer.theory.verify import REGISTRY
from algoformer.trace import Unroll
from algoformer.training import load_checkpoint
from report.explorer.conftest import Open, Predict
from report.explorer.models import answers, random_model, relative_error
from scripts.browser import Page

CHECKPOINTS = Path(__file__).parents[3] / "checkpoints"
ROWS = [[0.3], [-1.2], [0.8], [0.5], [-0.4], [1.1], [0.9]]
SINGLE, DOUBLE = 1e-4, 1e-9


def predicted(page: Page, rows: list[list[float]], reads: list[int], steps: int) -> list[list[float]]:
    found = page.run(f"explorer.predict({json.dumps(rows)}, {json.dumps(reads)}, {steps})")
    return found["answers"]


def stored(prompt: Prompt) -> Exploration:
    """An exploration that shows this prompt, whatever its task is."""
    data = {"rows": prompt.rows[0].tolist(), "targets": prompt.targets[0].tolist()}
    return Exploration(
        title="a model", pairs=False, prompts=({**data, "reads": list(prompt.reads), "parts": prompt.parts},)
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_answers_as_in_pytorch(name: str, open_page: Open) -> None:
    model = random_model(PRESETS[name](heads=2))
    reads = [0, 3, 6]
    found = predicted(open_page(model), ROWS, reads, 5)
    assert relative_error(found, answers(model, ROWS, reads, 5)) < SINGLE


PARTS = {
    "every switch of a layer off": Program(
        Loop(
            Layers(
                2, heads=2, norm=False, scaled=False, activation="relu", bias=False, positions=False,
                final_norm=False,
            ),
            steps=2,
            inject="add",
        )
    ),
    "heads and hidden units of any width": Program(
        Layers(1, heads=3, head_width=5, hidden=7), Loop(Layers(1, heads=1, head_width=2), steps=3)
    ),
    "gated injection": Program(Loop(Layers(1, heads=2), steps=3, inject="gate"), Layers(1, heads=2)),
    "input as the first state": Program(Loop(Layers(1, heads=2), steps=3, inject="none")),
    "positions or a norm alone": Program(
        Layers(0, final_norm=False), Loop(Layers(1, heads=2), steps=2), Layers(0, positions=False)
    ),
    "branches of which one loops": Program(
        Parallel(Loop(Layers(1, heads=2), steps=3), Layers(2, heads=2)), Layers(1, heads=2)
    ),
    "branches that loop side by side": Program(
        Layers(1, heads=2),
        Parallel(Loop(Layers(1, heads=2), steps=3), Loop(Layers(1, heads=1), steps=2, inject="gate")),
    ),
    "branches inside a loop inside a loop": Program(
        Loop(
            Program(Parallel(Layers(1, heads=2), Loop(Layers(1, heads=2), steps=2)), Layers(1, heads=2)),
            steps=3,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_every_part_answers_as_in_pytorch(name: str, predict: Predict) -> None:
    model = random_model(PARTS[name], std=0.3)
    reads = [2, 6]
    found = predict(model, ROWS, reads, 4)
    assert relative_error(found, answers(model, ROWS, reads, 4)) < SINGLE


@pytest.mark.parametrize("name", LOOP_MODELS)
def test_every_loop_model_answers_as_in_pytorch(name: str, predict: Predict) -> None:
    model = random_model(LOOP_MODELS[name](heads=2, kv_heads=1, head_width=4, hidden=8, steps=2), std=0.3)
    found = predict(model, ROWS, [6], 3)
    assert relative_error(found, answers(model, ROWS, [6], 3)) < SINGLE


# read when tests are collected, before any of them registers a word of its own
WORDS = {
    **{f"norm {word}": Layers(1, heads=2, norm=word, norm_eps=1e-3) for word in NORMS},
    **{f"norm {at}": Layers(2, heads=2, norm="rms", norm_at=at) for at in (*PLACES, "in+out", "in+after")},
    **{f"activation {word}": Layers(1, heads=2, activation=word) for word in ACTIVATIONS},
    **{f"gated {word}": Layers(1, heads=2, activation=word, gated=True) for word in ("silu", "gelu")},
    **{f"positions {word}": Layers(1, heads=2, positions=word, rope_base=500) for word in POSITIONS},
    **{f"queries and keys {word}": Layers(1, heads=2, qk_norm=word) for word in QK_NORMS},
    **{f"inject {word}": Loop(Layers(1, heads=2), steps=2, inject=word) for word in INJECTIONS},
    **{f"start {word}": Loop(Layers(1, heads=2), steps=2, start=word) for word in STARTS},
    **{f"halt {word}": Loop(Layers(1, heads=2), steps=2, halt=word) for word in ("none", *HALTING)},
    "halting in a loop in a loop": Loop(
        Program(Loop(Layers(1, heads=2), steps=3, halt="act", step_signal="sinusoid"), Layers(1, heads=2)),
        steps=2,
    ),
    "grouped heads": Layers(1, heads=4, kv_heads=2, head_width=6, positions="rope", qk_norm="full"),
    "bias of queries, keys and values": Layers(1, heads=2, bias="qkv"),
    "output gate": Layers(2, heads=2, output_gate=True, bias=False),
    "damping": Loop(Layers(1, heads=2), steps=2, damp=0.3),
    "step signal": Loop(Layers(1, heads=2), steps=2, step_signal="sinusoid", damp=0.5),
}


@pytest.mark.parametrize("name", WORDS)
def test_every_word_of_the_library_answers_as_in_pytorch(name: str, predict: Predict) -> None:
    model = random_model(Program(WORDS[name]), std=0.3)
    found = predict(model, ROWS, [1, 6], 3)
    assert relative_error(found, answers(model, ROWS, [1, 6], 3)) < SINGLE


def test_read_in_maps_blank_tokens_and_several_numbers_in_an_answer(open_page: Open) -> None:
    model = random_model(
        programs.algoformer(heads=2, steps=3), dim=2, out=2, row_maps=2, blanks=(1, 2), context=7
    )
    rows = [[value, -value / 2] for (value,) in ROWS]
    prompt = Prompt(rows=torch.tensor([rows]), targets=torch.zeros(1, 1, 2), reads=(6,), parts=2)
    found = predicted(open_page(model, stored(prompt)), rows, [0, 4], 4)
    assert relative_error(found, answers(model, rows, [0, 4], 4)) < SINGLE


def test_float64_models_are_computed_in_float64(predict: Predict) -> None:
    model = random_model(programs.algoformer(heads=2, steps=3)).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1e-9 * torch.rand(weight.shape, dtype=torch.float64)  # no number fits float32
    found = predict(model, ROWS, [6], 6)
    assert relative_error(found, answers(model, ROWS, [6], 6)) < 1e-12


GENTLE = Constants(c=0.1, sink=8.0, mask=100.0)
"""Constants whose two nearly equal heads differ enough that float64 keeps 13 digits of the difference."""

WITH_A_MODEL = [name for name, statement in REGISTRY.items() if statement.claimed]


@pytest.mark.parametrize("constants", [GENTLE, Constants()], ids=["gentle", "default"])
@pytest.mark.parametrize("name", WITH_A_MODEL)
def test_every_theorem_answers_as_in_pytorch(name: str, constants: Constants, predict: Predict) -> None:
    built = REGISTRY[name].case(Sizes(dim=3, examples=6, prompts=1, constants=constants))
    assert isinstance(built, Case)
    prompt = built.prompts[-1].select(slice(0, 1))
    steps = min(built.steps, 12)
    found = predict(built.model, prompt.rows[0].tolist(), list(prompt.reads), steps)
    expected = built.model(prompt, Unroll(steps=steps)).predictions[:, 0].flatten(1)
    # the default constants cost digits: PyTorch's two attention kernels differ by up to 4e-10 here themselves
    assert relative_error(found, expected.detach()) < DOUBLE


@pytest.mark.parametrize("name", ["linear", "representation"])
def test_a_shipped_model_answers_as_in_pytorch(name: str, open_page: Open) -> None:
    checkpoint = load_checkpoint(CHECKPOINTS / f"{name}.safetensors")
    model, task = checkpoint.model.eval(), checkpoint.task
    assert task is not None
    prompt = task.sample(1, generator=torch.Generator().manual_seed(3))
    page = open_page(model, stored(prompt.prefix(4)))
    rows, reads = prompt.rows[0].tolist(), [40, 80]
    found = predicted(page, rows, reads, 3)
    assert relative_error(found, answers(model, rows, reads, 3)) < SINGLE
    assert page.run("explorer.pack.stored") == "float16"


def test_further_questions_get_the_answers_of_prompts_of_their_own(open_page: Open) -> None:
    for causal in (True, False):
        model = random_model(programs.algoformer(heads=2, steps=3, causal=causal))
        questions = [[-2.0], [0.1], [1.7]]
        page = open_page(model)
        asked = f"explorer.predict({json.dumps(ROWS)}, [6], 4, {json.dumps(questions)})"
        found = torch.tensor(page.run(asked)["answers"])
        for place, row in enumerate([ROWS[-1], *questions]):
            expected = answers(model, [*ROWS[:-1], row], [6], 4)
            assert relative_error(found[:, place : place + 1].tolist(), expected) < SINGLE


def test_the_page_refuses_prompts_that_the_model_would_refuse(open_page: Open) -> None:
    page = open_page(random_model(programs.looped(heads=2)))
    assert "at most 9 rows, got 10" in refused(page, f"{json.dumps([[0.0]] * 10)}, [9], 1")
    assert "rows of 1 numbers, got 2" in refused(page, "[[1, 2]], [0], 1")
    full = open_page(random_model(programs.looped(heads=2, causal=False)))
    assert "full attention" in refused(full, "[[1], [2], [3]], [0], 1")


def refused(page: Page, arguments: str) -> str:
    return page.run(f"explorer.predict({arguments}).then(() => 'answered', (error) => error.message)")
