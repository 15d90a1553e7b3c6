"""`algoformer info`: a model's program, card and cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from algoformer.cli.choose import FirstOptions, read_experiment
from algoformer.cli.parse import HELP_FLAGS
from algoformer.cli.say import say
from algoformer.common.terminal import printable, short

if TYPE_CHECKING:
    from algoformer.training import Checkpoint, Experiment

HELP = """usage: algoformer info MODEL
       algoformer info [--data NAME] [--program NAME] [--scale NAME] [OPTIONS]

Describe a model: its program, its card, and its parameters, FLOPs and memory
part by part.

  MODEL            a run folder, a checkpoint file or a shipped model
  --data NAME      the task whose prompts are counted (default: linear)
  --program NAME   a preset, or a JSON file with a program
  --scale NAME     smoke, short or paper
  --width N        width of the residual stream

algoformer info --help-all lists every option.

examples
  algoformer info linear
  algoformer info runs/linear-algoformer-smoke-seed0
  algoformer info --scale paper --program algoformer"""

FIRST_FACTS = ("step", "seconds", "device", "precision", "commit", "command")
"""Facts about training that stand first on a card."""

HIDDEN = ("experiment", "program", "parameters", "error_by_sample", "engine", "torch", "files")
"""Facts that are pages of numbers or say little to a reader; they stay in the file."""


def run_info(arguments: list[str]) -> int:
    """Describe a run, a checkpoint, or the model that options describe."""
    if arguments and not arguments[0].startswith("-") and not HELP_FLAGS.intersection(arguments):
        if len(arguments) > 1:
            raise ValueError(f"info MODEL takes no further options, got {arguments[1]!r}")
        return _describe_file(Path(arguments[0]))
    experiment, _ = read_experiment(arguments, FirstOptions, command="info", short_help=HELP)
    if not hasattr(experiment.data, "task"):
        raise ValueError(
            f"info counts the cost of prompts, and --data {experiment.data.name} is text; "
            "train a model and describe it with algoformer info RUN"
        )
    print(experiment.program)
    _print_cost(experiment)
    return 0


def _describe_file(path: Path) -> int:
    from algoformer.model.algoformer import AlgoFormer
    from algoformer.model.cost import cost
    from algoformer.shipped import load

    checkpoint = load(path, best=True)
    model = checkpoint.model
    print(model.program)
    for line in card_lines(checkpoint):
        print(line)
    if isinstance(model, AlgoFormer):
        bill = cost(model.program, dim=model.dim, out=model.out, context=model.context, width=model.width)
        say(bill.table("one prompt, one forward pass", training=False))
    return 0


def card_lines(checkpoint: Checkpoint) -> list[str]:
    """Return the card as lines for a reader: data, size, training, measured errors or scores, the rest."""
    card, count = dict(checkpoint.card), sum(weight.numel() for weight in checkpoint.model.parameters())
    lines = [("data", _data_words(checkpoint)), ("parameters", f"{count:,}")]
    lines += [(name, _shown(card.pop(name))) for name in FIRST_FACTS if name in card]
    if isinstance(depths := card.pop("error_by_depth", None), dict):
        band, prompts = card.pop("error_band", None), card.pop("prompts", "?")
        solved = card.pop("solved_by_depth", None)
        lines += _solved_lines(solved)
        word = "wrong answers" if solved else "error"
        lines += [(f"{word} at T = {depth}", _shown(error)) for depth, error in depths.items()]
        if isinstance(band, list) and len(band) == 2:
            low, high = map(_shown, band)
            depth = next(iter(depths), "?")
            lines.append((f"5–95 % at T = {depth}", f"{low} to {high} over {_shown(prompts)} prompts"))
    lines += _insight_lines(card)
    for one in card.pop("measurements", None) or ():
        lines += _score_lines(one)
    examples = card.pop("examples", None)
    lines += [(name, _shown(value)) for name, value in card.items() if name not in HIDDEN]
    if isinstance(examples, dict):
        lines += [
            ("example", f"{text} → {_shown(answer).strip()}") for text, answer in list(examples.items())[:6]
        ]
    broad = max(len(name) for name, _ in lines[:40])
    return [f"{printable(str(name)).replace('_', ' '):<{broad}}  {printable(value)}" for name, value in lines]


def _solved_lines(solved: Any) -> list[tuple[str, str]]:
    """Return the share of solved prompts at each depth of a model of a puzzle."""
    if not isinstance(solved, dict):
        return []
    return [
        (f"solved at T = {depth}", "{:.1%} (5–95 %: {:.1%} to {:.1%})".format(*share))
        for depth, share in solved.items()
        if isinstance(share, list) and len(share) == 3 and all(isinstance(one, float) for one in share)
    ]


def _insight_lines(card: dict[str, Any]) -> list[tuple[str, str]]:
    from algoformer.insight import DepthCertificate, read_certificate
    from algoformer.insight.certificate import state_lines

    lines, verdict = [], card.pop("identification", None)
    if isinstance(verdict, dict):
        lines.append(("algorithm", str(verdict.get("sentence"))))
    if (data := card.pop("certificate", None)) is None:
        return lines
    try:
        found = read_certificate(data)
    except ValueError as error:
        return [*lines, ("depth", f"cannot be read: {error}")]
    texts = [found.sentence]
    if isinstance(found, DepthCertificate):
        texts.append(f"stop by {found.stopping}")
    if found.states is not None:
        texts += state_lines(found.states)[:1]
    return [*lines, *(("depth", text) for text in texts)]


def _data_words(checkpoint: Checkpoint) -> str:
    if checkpoint.task is not None:
        return str(checkpoint.task)
    return "none (built by hand)" if checkpoint.data is None else checkpoint.data.name


def _score_lines(one: Any) -> list[tuple[str, str]]:
    if not isinstance(one, dict) or not isinstance(one.get("scores"), dict):
        return [("measured", _shown(one))]
    lines = []
    for name, score in one["scores"].items():
        if isinstance(score, dict):
            value, low, high = (_shown(score.get(key)) for key in ("value", "low", "high"))
            words = f"{value} (95 %: {low} to {high}, {_shown(one.get('rows'))} texts)"
            lines.append((f"{name} on {one.get('split')}", words))
    return lines


def _shown(value: Any) -> str:
    """Return a value of a card in a few words: four digits, short lists, no nested experiments."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str):
        return value if len(value) <= 200 else value[:197] + "..."
    if isinstance(value, dict):
        return "; ".join(
            f"{name.replace('_', ' ')} {_shown(inner)}"
            for name, inner in list(value.items())[:8]
            if name not in HIDDEN and not isinstance(inner, dict)
        )
    if isinstance(value, list):
        comma = "; " if any(isinstance(one, str) for one in value) else ", "
        return comma.join(_shown(one) for one in value[:6]) + (f"{comma}..." if len(value) > 6 else "")
    return short(value)


def _print_cost(experiment: Experiment) -> None:
    from algoformer.model.cost import cost
    from algoformer.trace import Unroll
    from algoformer.training.config import unroll_at

    task, training = experiment.task, experiment.training
    sizes: dict[str, Any] = {name: getattr(task, name) for name in ("dim", "out", "context")}
    sizes |= {"width": experiment.width, "batch": training.batch_size}
    last = unroll_at(experiment.program, training, training.steps - 1)
    inference = cost(experiment.program, unroll=Unroll(steps=last.steps, window=1), **sizes)
    say(inference.table("inference", training=False))
    reach = f"window {last.length}, gradient through {last.grad_steps}"
    title = f"a training step: batch size {training.batch_size}, {reach}"
    say(cost(experiment.program, unroll=last, **sizes).table(title))
