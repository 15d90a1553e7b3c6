import pytest

from algoformer import tasks
from algoformer.cli.demo_runs import MODELS, plan
from algoformer.data.prompts import curricula
from algoformer.model.presets import LOOP_MODELS, PRESETS
from algoformer.model.program import Loop, modules_of
from algoformer.tasks import TASKS
from algoformer.training.config import Experiment, iterations_at
from algoformer.training.presets import experiment, named_recipe
from algoformer.training.text_recipes import text_experiment


def whole(task: tasks.Task) -> dict[str, int]:
    return {"dims": task.dim, "samples": -(-task.context // task.parts)}


@pytest.mark.parametrize("scale", ["smoke", "short", "paper"])
@pytest.mark.parametrize("program", PRESETS)
@pytest.mark.parametrize("task", TASKS)
def test_every_program_can_be_trained_on_every_task_at_every_scale(task, program, scale) -> None:
    run = experiment(task, program, scale)
    dims, samples = curricula(
        run.training,
        run.training.steps - 1,
        dims=run.task.dim,
        samples=-(-run.task.context // run.task.parts),
    )
    assert dims == run.task.dim, "the curriculum must reach the whole task"
    assert samples * run.task.parts >= run.task.context


def test_the_paper_scale_is_the_protocols_default_configuration() -> None:
    run = experiment("linear", "algoformer", "paper")
    training = run.training

    def stages(place: int, *steps: int) -> list[int]:
        return [curricula(training, step, **whole(run.task))[place] for step in steps]

    assert (run.width, training.steps, training.batch_size, training.lr) == (256, 500_000, 64, 1e-4)
    assert (training.window, training.schedule, training.clip_norm, training.warmup) == (
        15,
        "constant",
        None,
        0,
    )
    # dims 5 -> 20 by 1 and points 11 -> 41 by 2 every 5000 steps, loops 15 -> 20 by 2 every 500
    assert stages(0, 4_999, 5_000, 74_999, 75_000) == [
        5,
        6,
        19,
        20,
    ]
    assert stages(1, 4_999, 5_000, 74_999, 75_000) == [
        11,
        13,
        39,
        41,
    ]
    assert [iterations_at(training, step, default=20) for step in (499, 500, 1_000, 1_500)] == [
        15,
        17,
        19,
        20,
    ]


def test_linear_regression_is_trained_as_recommended_where_that_was_tried() -> None:
    run = experiment("linear", "algoformer", "short")
    training = run.training

    def stages(place: int, *steps: int) -> list[int]:
        return [curricula(training, step, **whole(run.task))[place] for step in steps]

    assert (training.loss, training.precision) == ("log", "tf32")
    # a tenth of the run with 5 coordinates, then one more every 800 steps
    assert stages(0, 0, 4_799, 4_800, 15_999, 16_000) == [
        5,
        5,
        6,
        19,
        20,
    ]
    assert stages(1, 0, 4_799, 4_800, 15_999, 16_000) == [
        11,
        11,
        13,
        39,
        41,
    ]
    for task, scale in (("linear", "paper"), ("linear", "smoke"), ("representation", "short")):
        other = experiment(task, "algoformer", scale).training
        assert (other.loss, other.samples.delay) == ("mean", 0)


def test_only_plain_tasks_have_a_curriculum_over_dimensions() -> None:
    taking = {task for task in TASKS if experiment(task, "standard", "paper").training.dims is not None}
    assert taking == {"linear", "robust"}


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'chain'"):
        experiment("chian", "algoformer")
    with pytest.raises(ValueError, match="unknown program 'qqq'; choose from standard"):
        experiment("linear", "qqq")
    with pytest.raises(ValueError, match="unknown program 'ouro'; choose from standard"):
        experiment("linear", "ouro")
    with pytest.raises(ValueError, match="unknown program 'ouro'; choose from standard"):
        text_experiment("labels", "ouro")
    with pytest.raises(ValueError, match=r"unknown program 'uoro' \(did you mean 'ouro'\?\)"):
        named_recipe("linear", "uoro")


def test_the_demo_compares_models_under_the_same_conditions(tmp_path) -> None:
    plans = plan(tmp_path)
    assert set(plans) == set(MODELS) == {"algoformer", "looped", "standard"}
    runs = [planned.experiment for planned in plans.values()]
    assert len({run.task for run in runs}) == len({run.width for run in runs}) == 1
    same = ("steps", "batch_size", "lr", "schedule", "clip_norm", "dims", "samples", "seed")
    assert all(len({getattr(run.training, name) for run in runs}) == 1 for name in same)


def test_no_two_loop_models_are_the_same_small_program() -> None:
    small = {name: Experiment(*named_recipe("linear", name)).program for name in LOOP_MODELS}
    cycle, sequence = small["mor_cycle"], small["mor_sequence"]
    assert [part.name for part in cycle] == ["first", "loop", "last"]
    assert sum(isinstance(part, Loop) for part in sequence) == 2
    assert len({str(program.to_json()) for program in small.values()}) == len(small)


@pytest.mark.parametrize("name", LOOP_MODELS)
@pytest.mark.parametrize("data", ["linear", "sudoku", "labels"])
def test_loop_models_are_named_as_programs_are(name: str, data: str) -> None:
    found = Experiment(*named_recipe(data, name))
    modules = modules_of(found.program)
    assert {layers.count for layers in modules} <= {0, 1, 2 if name == "mor_cycle" else 1}
    assert all(layers.causal == (data == "linear") for layers in modules if layers.count)
    assert found.program != LOOP_MODELS[name]()
