"""From `--kind`, `--program` and `--size` to an experiment on text with every setting as an option."""

from __future__ import annotations

import argparse
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro

from algoformer.cli.choose import read_program
from algoformer.cli.overrides import apply_settings, model_settings
from algoformer.cli.parse import parse
from algoformer.common.names import check_choice
from algoformer.language.training import PRESETS, TextExperiment, text_preset
from algoformer.language.training.experiment import Kind
from algoformer.language.training.presets import Size
from algoformer.model.program import default_steps, traced_part
from algoformer.training.files import read_json

FIRST: dict[str, tuple[Any, Any, str]] = {
    "kind": (Kind, "translation", "What to learn."),
    "program": (str, "algoformer", f"What learns: {', '.join(PRESETS)}, or a JSON file with a program."),
    "size": (Size, "small", "small: two CPU cores; paper: its sizes; tuned: larger."),
    "config": (Path | None, None, "A run's config.json to start from instead of these three."),
}
"""These decide which further options there are, so they are read first."""


def read_text_experiment(
    arguments: list[str], *, command: str, description: str, extra: list[tuple[str, Any, Any]]
) -> tuple[TextExperiment, Any]:
    """The experiment that the options describe, and the object that holds the command's own options."""
    start = _start(arguments)
    model = model_settings(start.program, start.width)
    options = [
        (name, Annotated[kind, tyro.conf.arg(help=text)], value)
        for name, (kind, value, text) in FIRST.items()
    ]
    settings_kind = make_dataclass(
        "settings",
        [
            *options,
            *extra,
            ("model", type(model), model),
            ("text", type(start.text), start.text),
            ("training", type(start.training), start.training),
        ],
        frozen=True,
    )
    settings = parse(
        settings_kind, arguments, command=command, description=description, default=settings_kind()
    )
    built = TextExperiment(
        program=apply_settings(start.program, settings.model),
        width=settings.model.width,
        text=settings.text,
        training=settings.training,
    )
    return built, settings


def _start(arguments: list[str]) -> TextExperiment:
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in FIRST:
        first.add_argument(f"--{name}", nargs="?")
    chosen, _ = first.parse_known_args(arguments)
    if chosen.config is not None:
        return TextExperiment.from_data(read_json(Path(chosen.config)))
    values: dict[str, Any] = {name: getattr(chosen, name) or FIRST[name][1] for name in FIRST}
    for name, allowed in {"kind": get_args(Kind), "size": get_args(Size)}.items():
        check_choice(name, values[name], allowed)
    if not values["program"].endswith(".json"):
        check_choice("program", values["program"], PRESETS)
        return text_preset(values["kind"], values["program"], values["size"])
    like = text_preset(values["kind"], "algoformer", values["size"])
    program = read_program(Path(values["program"]))
    window = default_steps(program) if traced_part(program) is not None else 1
    return replace(like, program=program, training=replace(like.training, window=window))
