"""The sources of mutants, with a small valid sample for each format."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from algoformer.checkpoint import LATEST, load_checkpoint
from algoformer.cli import main
from algoformer.common.files import read_json
from algoformer.common.plain_data import read_object
from algoformer.data.files import read_labelled, read_parallel
from algoformer.data.protocol import data_class, data_names
from algoformer.data.token_file import text_blocks
from algoformer.evaluation.curve import Curve
from algoformer.evaluation.evaluation import Evaluation
from algoformer.insight.certificate import DepthCertificate
from algoformer.insight.identification import Identification
from algoformer.insight.probabilities import ProbabilityCertificate, read_certificate
from algoformer.language.tokenizer import Tokenizer
from algoformer.model.cost import cost
from algoformer.model.presets import PRESETS
from algoformer.model.program import Program
from algoformer.shipped import shipped_path
from algoformer.tasks import TASKS
from algoformer.tasks.sudoku_boards import read_puzzles
from algoformer.training import Experiment
from algoformer.training.presets import experiment
from torture.child import finish, start
from torture.lines import changed_line, lines, run_line, words_to_replace
from torture.mutate import mutate_bytes, mutate_json, mutate_text
from torture.optional_formats import hf_sources, search_sources
from torture.run_folders import run_folders
from torture.samples import data_files, scenarios, sentences
from torture.sources import Source, file_source, json_source
from torture.tensor_files import changed_checkpoint, checkpoints, packed_text
from torture.verdicts import Mutant, NonsenseError

DATA = "algoformer.data."
READ_PUZZLES = "algoformer.tasks.sudoku_boards.read_puzzles"


def all_sources(scratch: Path) -> list[Source]:
    """Train a small model of every kind, and return the sources of mutants.

    Raises:
        RuntimeError: a sample could not be made.
    """
    runs = _runs(scratch)
    files = data_files(scratch / "data")
    temporary = scratch / "mutants"
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o777)
    return [
        *_json_sources(runs, scratch),
        _configs(runs),
        *checkpoints(runs, temporary),
        *packed_text(scratch, temporary),
        *_data_sources(files, temporary, scratch),
        run_folders(runs, temporary, changed_checkpoint),
        *search_sources(scratch, temporary),
        *hf_sources(runs, scratch, temporary),
        _command_lines(runs, scratch),
    ]


def _runs(scratch: Path) -> dict[str, Path]:
    """Train a small run for every kind of data, by name."""
    found: dict[str, Path] = {}
    for name, words in scenarios(scratch).items():
        kind = name.split()[0]
        if kind not in ("task", *data_names()) or any(one.split()[0] == kind for one in found):
            continue
        folder = scratch / f"run {name}"
        output = scratch / "output"
        ended = finish(start(lambda: main(["train", *words, "--out", str(folder)]), output=output))  # noqa: B023
        if ended.code:
            raise RuntimeError(f"{name} cannot be trained: {output.read_text()[-500:]}")
        found[name] = folder
    return found


def _called(*words: str) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        if main(list(words)):
            raise RuntimeError(f"{' '.join(words)}: {said.getvalue()[-500:]}")


def _json_sources(runs: dict[str, Path], scratch: Path) -> list[Source]:
    linear, out = str(runs["task linear"]), scratch / "measured"
    _called("evaluate", linear, "--prompts", "24", "--out", str(out))
    _called("certify", linear, "--reach", "2", "--out", str(out))
    _called("identify", linear, "--iterations", "3", "--prompts", "24", "--out", str(out))
    text_out, texts = scratch / "measured text", scratch / "texts.txt"
    texts.write_text("\n".join(sentences(9)) + "\n")
    _called(
        *("certify", str(runs["labels csv"]), "--texts", str(texts)),
        *("--reach", "2", "--out", str(text_out)),
    )
    evaluations = read_json(out / "evaluation.json")
    one = evaluations[0] if isinstance(evaluations, list) else next(iter(evaluations.values()))
    one = one[0] if isinstance(one, list) else one
    tokenizers = [load_checkpoint(path / LATEST).tokenizer for path in runs.values()]
    return [
        json_source(Program, [preset().to_json() for preset in PRESETS.values()], _sane_program),
        json_source(Tokenizer, [each for each in tokenizers if each], lambda found: found.encode("a b")),
        json_source(Evaluation, [json.dumps(one)], repr),
        json_source(Curve, [json.dumps(one["by_step"]), json.dumps(one["by_sample"])], repr),
        json_source(DepthCertificate, [(out / "certificate.json").read_text()], str),
        json_source(ProbabilityCertificate, [(text_out / "certificate.json").read_text()], str),
        _certificates([read_json(one / "certificate.json") for one in (out, text_out)]),
        json_source(Identification, [(out / "identification.json").read_text()], str),
    ]


def _certificates(samples: list[Any]) -> Source:
    """Return mutants of certificates as a model's card holds them."""

    def mutant(rng: random.Random) -> Mutant:
        data = mutate_json(rng, rng.choice(samples))

        def run() -> None:
            str(read_certificate(data))

        return Mutant(f"certificate {json.dumps(data)[:500]}", run)

    return Source("certificates on cards", 1, ("algoformer.insight.probabilities.read_certificate",), mutant)


def _sane_program(program: Program) -> None:
    str(program)
    cost(program, dim=2, out=1, context=6, width=64)


def _configs(runs: dict[str, Path]) -> Source:
    samples = [(path / "config.json").read_text() for path in runs.values()]
    for task in TASKS:
        samples += [json.dumps(experiment(task, program, "paper").to_data()) for program in PRESETS]

    def mutant(rng: random.Random) -> Mutant:
        text = mutate_text(rng, rng.choice(samples))

        def run() -> None:
            found = Experiment.from_data(read_object(text))
            if Experiment.from_data(json.loads(json.dumps(found.to_data()))) != found:
                raise NonsenseError("what was read is not what is written")

        return Mutant(f"config {text[:600]}", run)

    reads = (
        *("algoformer.training.config.Experiment.from_data", "algoformer.tasks.catalog.from_data"),
        *("algoformer.model.read_program.from_data", "algoformer.model.read_program.from_json"),
        "algoformer.common.plain_data.read_dataclass",
        *(f"{kind.__module__}.{kind.__name__}.from_header" for kind in map(data_class, data_names())),
        "algoformer.common.plain_data.read_object",
    )
    return Source("configs", 6, reads, mutant)


def _data_sources(files: dict[str, list[list[str]]], temporary: Path, scratch: Path) -> list[Source]:
    """Return mutants of data files, read directly, and a few through `algoformer train`."""
    labels = [Path(one[0]) for one in files["labels"]]
    ((german, english),) = files["translation"]
    (book,) = files["text"][0]
    boards = [scratch / "boards.txt", scratch / "boards.gz"]
    boards[0].write_text(f"{'1' + '.' * 80}\n{'.' * 40 + '9' + '0' * 40}\n")
    boards[1].write_bytes(gzip.compress(boards[0].read_bytes()))

    def parallel(path: Path) -> None:
        read_parallel([str(path)], [english])

    def trained(rng: random.Random) -> Mutant:
        kind = rng.choice([kind for kind, formats in files.items() if formats])
        paths = [Path(one) for one in rng.choice(files[kind])]
        contents = [path.read_bytes() for path in paths]
        which = rng.randrange(len(paths))
        contents[which] = mutate_bytes(rng, contents[which])
        number = rng.getrandbits(60)

        def run() -> None:
            given = [temporary / f"{number} {path.name}" for path in paths]
            for path, content in zip(given, contents, strict=True):
                path.write_bytes(content)
            options = ("--steps", "1", "--width", "8", "--no-evaluate", "--device", "cpu")
            run_line(
                ["train", "--data", kind, *map(str, given), "--data.vocabulary", "300", *options], scratch
            )

        return Mutant(f"train --data {kind} with {contents[which][:200]!r}", run)

    shared = (f"{DATA}files.read_text", f"{DATA}files.read_lines", "algoformer.common.files.read_bytes")
    return [
        file_source(
            "parallel text",
            [Path(german)],
            parallel,
            (*shared, f"{DATA}files.read_parallel"),
            temporary,
        ),
        file_source(
            "tables with labels",
            labels,
            lambda path: read_labelled([str(path)]),
            (*shared, f"{DATA}files.read_labelled"),
            temporary,
        ),
        file_source("plain text", [Path(book)], lambda path: list(text_blocks(path)), (), temporary),
        file_source("Sudoku puzzles", boards, read_puzzles, (READ_PUZZLES,), temporary),
        Source("data files through train", 0.3, (), trained),
    ]


def stand_ins(runs: dict[str, Path], scratch: Path) -> dict[str, list[str]]:
    """Return small models and files in place of those in the examples of the commands.

    Raises:
        KeyError: an example names a model for which there is no stand-in.
    """
    text = scratch / "lines.txt"
    text.write_text("\n".join(sentences(3)) + "\n")
    kinds = {_kind_of(path / LATEST): str(path) for path in runs.values()}
    found = {"RUN": [str(path) for path in runs.values()]}
    for word in words_to_replace() - {"RUN"}:
        found[word] = [str(text) if word.endswith(".txt") else kinds[_kind_of(shipped_path(word))]]
    return found


def _kind_of(path: Path) -> tuple[str, str]:
    checkpoint = load_checkpoint(path)
    return type(checkpoint.model).__name__, "" if checkpoint.data is None else checkpoint.data.name


def _command_lines(runs: dict[str, Path], scratch: Path) -> Source:
    known = defaultdict(list)
    for line in lines(stand_ins(runs, scratch)):
        known[line.words[0]].append(line)
    weights = [0.02 if name == "demo" else 1.0 for name in known]  # the demo trains for minutes

    def mutant(rng: random.Random) -> Mutant:
        (of_command,) = rng.choices(list(known.values()), weights)
        return changed_line(rng, rng.choice(of_command), scratch)

    reads = ("algoformer.cli.choose.read_experiment", "algoformer.cli.choose.read_program")
    return Source("command lines", 3, reads, mutant)
