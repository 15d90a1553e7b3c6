"""Is a looped language model better healed from an unlooped one, or trained from scratch?

A small Llama of `transformers` learns to predict the characters of a text, for `--before` steps. `loopify`
loops its middle layers, and training continues for `--after` steps. Beside it stand the same looped model
from scratch, after `--after` steps and after `--before` + `--after` steps, and the unlooped one that simply
goes on. All runs share batch, optimizer and schedule; nothing is tuned.

    python scripts/healing.py input.txt --seed 0 --out results/healing/seed-0.json

Every finished run is written at once. A second call repeats the first training only, and goes on from there.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algoformer.common.devices import source_commit
from algoformer.common.files import read_json, write_json
from algoformer.hf import loopify, set_steps
from algoformer.hf.installed import transformers

SPLIT = {"prelude": 2, "core": 2, "coda": 2}
DEPTHS = (1, 2, 4, 8)
"""Numbers of iterations at which a looped model is measured."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes and schedule of all runs."""

    before: int = 600
    after: int = 300
    steps: int = 4
    width: int = 64
    heads: int = 4
    context: int = 64
    batch: int = 16
    rate: float = 2e-3
    warmup: int = 50
    validation: int = 64


class Characters:
    """A text as numbers of its characters; the last tenth is for validation."""

    def __init__(self, text: str) -> None:
        letters = sorted(set(text))
        number = {letter: index for index, letter in enumerate(letters)}
        tokens = torch.tensor([number[letter] for letter in text])
        self.vocabulary, cut = len(letters), len(tokens) * 9 // 10
        self.train, self.held_out = tokens[:cut], tokens[cut:]

    def batch(self, part: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
        """Return windows of the text, (window, token)."""
        starts = torch.randint(len(part) - length, (count,), generator=generator)
        return part[starts[:, None] + torch.arange(length)]


def build(settings: Settings, vocabulary: int, seed: int) -> Any:
    """Return a small Llama with random weights."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=settings.width,
        intermediate_size=8 * settings.width // 3,
        num_hidden_layers=sum(SPLIT.values()),
        num_attention_heads=settings.heads,
        max_position_embeddings=settings.context,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def train(model: Any, text: Characters, settings: Settings, *, steps: int, seed: int) -> None:
    """Train with AdamW, a linear warm-up and a cosine to a tenth of the rate."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.1)
    model.train()
    for step in range(steps):
        share = min(1.0, (step + 1) / settings.warmup)
        cosine = 0.55 + 0.45 * math.cos(math.pi * step / max(1, steps))
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * share * cosine
        tokens = text.batch(text.train, settings.batch, settings.context, generator)
        optimizer.zero_grad()
        model(tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def held_out_loss(model: Any, text: Characters, settings: Settings) -> float:
    """Return the mean cross entropy of a character on fixed windows of the held-out text, in nats."""
    generator = torch.Generator().manual_seed(12345)
    tokens = text.batch(text.held_out, settings.validation, settings.context, generator)
    model.eval()
    return float(model(tokens, labels=tokens).loss)


def loss_by_depth(model: Any, text: Characters, settings: Settings) -> dict[str, float]:
    """Return the held-out loss of a looped model at each of `DEPTHS`."""
    found = {}
    for depth in DEPTHS:
        set_steps(model, depth)
        found[str(depth)] = held_out_loss(model, text, settings)
    set_steps(model, settings.steps)
    return found


def looped(model: Any, settings: Settings) -> Any:
    """Return a looped copy of a model."""
    return loopify(copy.deepcopy(model), **SPLIT, steps=settings.steps)


def compare(text: Characters, settings: Settings, *, seed: int, out: Path) -> dict[str, Any]:
    """Run every contender that `out` does not hold yet; return and write the losses."""
    about = {"seed": seed, "settings": asdict(settings)}
    found: dict[str, Any] = read_json(out) if out.exists() else {**about, "runs": {}}
    if {name: found.get(name) for name in about} != about:
        raise ValueError(f"{out} was made with another seed or other settings; choose another file")
    runs: dict[str, Any] = found["runs"]

    def keep(name: str, losses: dict[str, float], steps: int, began: float) -> None:
        runs[name] = {
            "loss_by_depth": losses,
            "training_steps": steps,
            "seconds": round(time.monotonic() - began, 1),
            "commit": source_commit(),
            "device": "CPU, 1 thread",
            "torch": torch.__version__,
        }
        print(name, losses, flush=True)
        write_json(out, found)

    total = settings.before + settings.after
    began, plain = time.monotonic(), build(settings, text.vocabulary, seed)
    train(plain, text, settings, steps=settings.before, seed=seed)
    keep("unlooped", {"1": held_out_loss(plain, text, settings)}, settings.before, began)
    model = looped(plain, settings)
    keep("looped, not healed", loss_by_depth(model, text, settings), settings.before, time.monotonic())
    for name, start, steps in (
        ("healed", plain, settings.after),
        ("from scratch, as many steps as healing", None, settings.after),
        ("from scratch, as many steps in all", None, total),
    ):
        if name not in runs:
            began = time.monotonic()
            model = looped(start or build(settings, text.vocabulary, seed), settings)
            train(model, text, settings, steps=steps, seed=seed + 1000)
            keep(name, loss_by_depth(model, text, settings), steps, began)
    if "unlooped, trained on" not in runs:
        began = time.monotonic()
        train(plain, text, settings, steps=settings.after, seed=seed + 1000)
        keep("unlooped, trained on", {"1": held_out_loss(plain, text, settings)}, total, began)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, help="a text file, or one compressed by gzip")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=int, default=Settings.before)
    parser.add_argument("--after", type=int, default=Settings.after)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    raw = chosen.text.read_bytes()
    if chosen.text.suffix == ".gz":
        raw = gzip.decompress(raw)
    settings = Settings(before=chosen.before, after=chosen.after)
    torch.set_num_threads(1)
    compare(Characters(raw.decode()), settings, seed=chosen.seed, out=chosen.out)


if __name__ == "__main__":
    main()
