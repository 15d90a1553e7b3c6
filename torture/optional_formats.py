"""Sources of mutants for formats that are read with optional packages: searches and Hugging Face folders."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
from pathlib import Path
from typing import Any

from algoformer.checkpoint import LATEST, load_checkpoint
from algoformer.model.presets import PRESETS
from algoformer.training import Experiment
from algoformer.training.presets import experiment
from torture.mutate import mutate_bytes, mutate_json
from torture.sources import Source, json_source
from torture.verdicts import Mutant

SEARCH = "algoformer.search."

MANY_LAYERS = 100
"""More layers than any of the programs has that are changed."""


def search_sources(scratch: Path, temporary: Path) -> list[Source]:
    """Return mutants of search spaces and of the journals of searches, if what reads them is installed."""
    if importlib.util.find_spec("optuna") is None:
        return []
    import optuna

    from algoformer.search import SearchSettings, SearchSpace, read_result
    from algoformer.search.study import open_study

    small: Experiment = experiment("linear", "algoformer", "smoke")
    settings, path = SearchSettings(experiment=small), scratch / "study.log"
    study = open_study(settings, path, "study")
    study.sampler = optuna.samplers.RandomSampler(seed=0)
    for number in range(5):
        trial = study.ask(settings.chosen_space.distributions())
        for name, value in {"iterations": 3, "flops": 1e6, "parameters": 1000}.items():
            trial.set_user_attr(name, value)
        trial.report(1.0, 1)
        study.tell(trial, 0.5 + number)
    rows = [json.loads(line) for line in path.read_text().splitlines()]

    def mutant(rng: random.Random) -> Mutant:
        if rng.random() < 0.8:
            changed = list(rows)
            place = rng.randrange(len(rows))
            changed[place] = mutate_json(rng, rows[place])
            content = "".join(json.dumps(row) + "\n" for row in changed).encode("utf-8", "surrogatepass")
        else:
            content = mutate_bytes(rng, path.read_bytes())
        file = temporary / f"{rng.getrandbits(60)}.log"

        def run() -> None:
            file.write_bytes(content)
            try:
                str(read_result(file, study="study"))
            finally:
                file.unlink(missing_ok=True)

        return Mutant(f"journal {content[:800]!r}", run)

    reads = (f"{SEARCH}study.load_study", f"{SEARCH}result.read_result")
    spaces = json_source(SearchSpace, [settings.chosen_space.to_json(), SearchSpace().to_json()], repr)
    return [Source("journals of searches", 1, reads, mutant), spaces]


def hf_sources(runs: dict[str, Path], scratch: Path, temporary: Path) -> list[Source]:
    """Return mutants of the fields that this library puts into the `config.json` of Hugging Face folders."""
    if importlib.util.find_spec("transformers") is None:
        return []
    from algoformer.hf import AlgoformerForCausalLM, from_hf, to_hf
    from algoformer.model.program import to_data

    folder = scratch / "hf"
    model: Any = load_checkpoint(runs["text txt"] / LATEST).model
    to_hf(model).save_pretrained(folder)
    whole = json.loads((folder / "config.json").read_text())
    own = ("program", "vocab_size", "hidden_size", "max_position_embeddings", "steps", "dropout")
    programs = [whole["program"], *(to_data(preset()) for preset in PRESETS.values())]

    def mutant(rng: random.Random) -> Mutant:
        changed = {name: whole.get(name) for name in own} | {
            "program": rng.choice([whole["program"], rng.choice(programs)])
        }
        changed = mutate_json(rng, changed)
        changed = changed if isinstance(changed, dict) else {"program": changed}
        kept = {name: value for name, value in whole.items() if name not in own}
        target = temporary / f"hf {rng.getrandbits(60)}"

        def run() -> None:
            shutil.copytree(folder, target)
            (target / "config.json").write_text(json.dumps(kept | changed))
            try:
                from_hf(AlgoformerForCausalLM.from_pretrained(target))
            except RuntimeError as error:
                if "ignore_mismatched_sizes" not in str(error):
                    raise
                raise ValueError(str(error)) from None  # how transformers refuses weights of another shape
            finally:
                shutil.rmtree(target)

        # transformers builds what the configuration asks for before it looks at the weights
        more_work = _most_layers(changed) > MANY_LAYERS
        name = f"config.json of a Hugging Face folder {json.dumps(changed)[:800]}"
        return Mutant(name, run, more_work=more_work)

    return [Source("Hugging Face folders", 1, (), mutant)]


def _most_layers(data: object) -> int:
    """Return the largest number of layers that a part of a program asks for."""
    if isinstance(data, dict):
        count = data.get("count")
        return max([count if type(count) is int else 0, *map(_most_layers, data.values())])
    return max(map(_most_layers, data), default=0) if isinstance(data, list) else 0
