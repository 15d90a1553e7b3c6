from dataclasses import replace

import pytest

from algoformer.config import ramp_value
from algoformer.model.presets import algoformer
from algoformer.tasks import LinearRegression, RegressionWithRepresentation
from algoformer.training import Experiment, Ramp, TrainConfig
from algoformer.training.config import unroll_at
from algoformer.training.presets import experiment
from paper.recipes import RECIPES
from paper.runs import RECOMMENDED, TF32, RunSpec, fingerprint, trained
from paper.summary import all_items

RUN = Experiment(
    program=algoformer(heads=2, steps=6),
    data=LinearRegression(dim=3, points=8),
    width=16,
    training=TrainConfig(window=4, dims=Ramp(start=1, increment=1), iterations=Ramp(start=4, increment=1)),
)
TRAINING_CHANGES = {
    "steps": 7, "batch_size": 7, "lr": 7e-3, "schedule": "cosine", "warmup": 0.1, "min_lr_ratio": 0.2,
    "clip_norm": 1.0, "window": 3, "backprop": "full", "gradient_checkpointing": True, "burn_in": (0, 1),
    "dims": None, "samples": Ramp(start=3, increment=1), "iterations": None, "loss": "log",
    "precision": "bf16", "seed": 1, "log_every": 7, "checkpoint_every": 7,
}  # fmt: skip


def hashed(experiment: Experiment) -> str:
    return fingerprint(RunSpec(name="a/b", label="", experiment=experiment).settings)


def test_every_field_of_the_training_is_in_the_hash() -> None:
    fields = set(TrainConfig.__dataclass_fields__)
    assert fields >= set(TRAINING_CHANGES)
    hashes = {
        name: hashed(replace(RUN, training=replace(RUN.training, **{name: value})))
        for name, value in TRAINING_CHANGES.items()
    }
    assert len({hashed(RUN), *hashes.values()}) == len(TRAINING_CHANGES) + 1


@pytest.mark.parametrize(
    "changed",
    [
        replace(RUN, width=32),
        replace(RUN, data=LinearRegression(dim=3, points=9)),
        replace(RUN, data=LinearRegression(dim=3, points=8, noise=0.1)),
        replace(RUN, program=algoformer(heads=4, steps=6)),
        replace(RUN, program=algoformer(heads=2, steps=6, inject="gate")),
    ],
)
def test_what_is_trained_on_what_is_in_the_hash(changed: Experiment) -> None:
    assert hashed(changed) != hashed(RUN)


def test_the_hash_survives_storing() -> None:
    stored = Experiment.from_data(RUN.to_data())
    assert hashed(stored) == hashed(RUN)


def test_a_name_or_a_label_does_not_change_the_hash() -> None:
    one = RunSpec(name="a/b", label="x", experiment=RUN)
    assert fingerprint(one.settings) == fingerprint(replace(one, name="c/d", label="y").settings)


@pytest.mark.parametrize("scale", ["tiny", "short", "paper"])
def test_a_name_stands_for_one_configuration_in_all_figures(scale) -> None:
    seen: dict[str, str] = {}
    for recipe in RECIPES.values():
        items = recipe.items(scale)
        assert len({item.name for item in items}) == len(items)
        for item in items:
            group, _, name = item.name.partition("/")
            assert group
            assert name
            assert seen.setdefault(item.name, fingerprint(item.settings)) == fingerprint(item.settings)
    assert set(seen) == {item.name for item in all_items(scale)}


def test_the_important_runs_of_figure_2_come_first() -> None:
    first = [item.name for item in RECIPES["fig2"].items("short")][:9]
    models = ("algoformer", "standard", "looped")
    assert first == [f"{t}/{m}" for t in ("representation", "autoregressive", "chain") for m in models]


@pytest.mark.parametrize("scale", ["tiny", "short", "paper"])
@pytest.mark.parametrize("figure", RECIPES)
def test_models_of_one_group_are_trained_under_the_same_conditions(figure, scale) -> None:
    groups: dict[str, list[TrainConfig]] = {}
    for item in RECIPES[figure].items(scale):
        if isinstance(item, RunSpec):
            config = item.experiment.training
            if item.name.endswith("-slow"):  # the one thing that this control is about
                assert config.lr == pytest.approx(1e-3)
                config = replace(config, lr=3e-3)
            if RECOMMENDED in item.name or TF32 in item.name:  # changes several things, and says so
                continue
            if "/late" in item.name:  # so is a curriculum that waits
                usual = groups["depth-linear"][0]
                assert config.dims.delay > usual.dims.delay == 0
                config = replace(config, dims=usual.dims, samples=usual.samples)
            groups.setdefault(item.name.split("/")[0], []).append(config)
    same = ("steps", "batch_size", "lr", "schedule", "warmup", "clip_norm", "dims", "samples")
    for group, runs in groups.items():
        for name in same:
            assert len({getattr(run, name) for run in runs}) == 1, f"{group} differs in {name}"


def stage(run: RunSpec, share: float) -> tuple[object, ...]:
    """Where the curricula stand after a share of the run."""
    config, task = run.experiment.training, run.task
    step = round(share * config.steps)
    ends = ((config.dims, task.dim), (config.samples, task.points))
    ramps = [ramp_value(ramp, step, steps=config.steps, end=end) for ramp, end in ends]
    return (*ramps, unroll_at(run.experiment.program, config, step))


def test_fewer_steps_squeeze_every_curriculum() -> None:
    long = trained("a/b", "", LinearRegression(), algoformer(), "paper")
    short = long.with_steps(5000)
    assert short.experiment.training.steps == 5000
    for share in (0.0, 0.0005, 0.0012, 0.03, 0.1, 0.14, 0.5):
        assert stage(long, share) == stage(short, share)


def test_the_paper_scale_has_the_papers_constants_and_figure_3_both_ways_to_train_for_depth() -> None:
    runs = {item.name: item for item in all_items("paper") if isinstance(item, RunSpec)}
    for run in runs.values():
        config = run.experiment.training
        assert (config.steps, config.batch_size, config.lr) == (500_000, 64, 1e-4)
        assert (config.schedule, config.clip_norm, run.prompts) == ("constant", None, 1280)
    fixed, held = (runs[f"loops/{kind}-20-15"].experiment.training for kind in ("fixed", "holding"))
    assert (fixed.burn_in, fixed.backprop) == ((), "window")
    assert (held.burn_in, held.backprop, held.iterations) == ((0, 0, 10, 20), "full", None)
    assert runs["loops/fixed-30-5"].experiment.training.iterations == Ramp(
        start=5, increment=2, interval=0.001
    )


def test_the_short_scale_is_the_recommended_recipe() -> None:
    runs = {item.name: item.experiment.training for item in all_items("short") if isinstance(item, RunSpec)}
    config = runs["representation/algoformer"]
    assert (config.optimizer, config.lr, config.schedule) == ("muon", 3e-3, "cosine")
    assert (config.clip_norm, config.precision) == (1, "bf16")
    assert (config.burn_in, config.backprop, config.iterations) == ((0, 0, 10, 20), "full", None)
    assert runs["linear/algoformer"].burn_in == (0, 0, 10, 20, 40, 80)
    assert runs["representation/standard"].burn_in == ()
    fixed, held = (runs[f"loops/{kind}-20-15"] for kind in ("fixed", "holding"))
    assert replace(fixed, burn_in=held.burn_in) == held, "only the burn-in differs"


def test_what_is_recommended_is_the_recipe_of_the_library() -> None:
    runs = {item.name: item.experiment.training for item in all_items("short") if isinstance(item, RunSpec)}
    config = runs["linear/algoformer-tf32"]
    library = experiment("linear", "algoformer", "short").training
    assert replace(config, log_every=library.log_every) == library
    assert (config.steps, config.precision, config.loss) == (40_000, "tf32", "log")
    assert config.dims == Ramp(start=5, increment=1, interval=0.02, delay=0.1)
    assert replace(runs["linear/algoformer-tf32-seed1"], seed=0) == config
    for task in ("representation", "chain"):
        other = runs[f"{task}/algoformer-tf32"]
        assert (other.steps, other.precision, other.loss) == (40_000, "tf32", "log")
        assert other.burn_in == runs[f"{task}/algoformer"].burn_in


def test_the_ablation_changes_one_thing_at_a_time() -> None:
    runs = {item.name.split("/")[1]: item.experiment for item in RECIPES["depth"].items("short")[:7]}
    base = runs.pop("holding").to_data()
    for name, run in runs.items():
        data = run.to_data()
        differing = [key for key in base["training"] if base["training"][key] != data["training"][key]]
        differing += ["program"] if base["program"] != data["program"] else []
        assert len(differing) == 1, f"{name} changes {differing}"


def test_noise_and_another_representation_are_other_tasks() -> None:
    tasks = {item.name: item.task for item in all_items("short")}
    assert tasks["representation-noise-1/looped"] == RegressionWithRepresentation(noise=1.0)
    assert tasks["representation-phi-1/algoformer"] == RegressionWithRepresentation(phi_seed=1)
    assert tasks["linear-noise-0.1/algoformer-10-10"] == LinearRegression(noise=0.1)


@pytest.mark.parametrize(("scale", "far", "farthest"), [("tiny", 30, 30), ("short", 200, 1000)])
def test_how_far_loops_are_run_is_the_scales(scale, far: int, farthest: int) -> None:
    for item in all_items(scale):
        assert item.far == far
        if isinstance(item, RunSpec):
            assert item.farthest == farthest
            # prompts of 287 rows, and sweeps, are run to the end on a quarter of them
            costly = ("chain/", "loops/", "layers/", "heads/", "depth-", "linear-noise-")
            few = item.name.startswith(costly) and scale == "short"
            assert item.deep_prompts == item.prompts // (4 if few else 1)
