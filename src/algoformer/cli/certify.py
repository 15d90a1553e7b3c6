"""`algoformer certify`: what does a loop do beyond its trained depth?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algoformer.cli.parse import ModelOption, parse

DESCRIPTION = """Run a loop to 50 times its trained depth, and report what its answers and states do.

Examples:
  algoformer certify linear
  algoformer certify runs/linear-looped-smoke-seed0 --reach 20 --out certificate
  algoformer certify dbpedia --texts texts.txt
  algoformer certify tatoeba_de_en --texts test.de --references test.en
"""


@dataclass(frozen=True)
class CertifyOptions:
    """Options of `algoformer certify`."""

    model: ModelOption
    reach: int = 50  # Depth to run to, in multiples of the trained depth.
    prompts: int | None = None
    """Number of held-out prompts, at least 8, or of lines of text; by default 12, or 48 for puzzles."""
    seed: int = 0  # Seed of the held-out prompts.
    texts: Path | None = None  # For a model of text: a file with one text a line.
    references: Path | None = None  # For a translator: a file with the reference for each text.
    stored: bool = False  # Show the certificate on the model's card instead of measuring one.
    store: bool = False  # Add the certificate to the model's card.
    json: bool = False  # Print JSON instead of a table.
    out: Path | None = None  # Folder for certificate.json and plots.


def run_certify(arguments: list[str]) -> int:
    """Certify a model's depth, print the certificate, and draw it if a folder is given."""
    chosen = parse(CertifyOptions, arguments, command="certify", description=DESCRIPTION)
    from algoformer.cli.insight_results import deliver, prepare, with_provenance
    from algoformer.cli.measure import label_of, load_contender
    from algoformer.insight import certify, read_certificate
    from algoformer.model import AlgoFormer
    from algoformer.report.insight_plots import certificate_figures
    from algoformer.shipped import load

    prepare(chosen)
    start, checkpoint = time.monotonic(), load(chosen.model)
    found: Any
    if chosen.stored:
        if "certificate" not in checkpoint.card:
            raise ValueError(
                f"{chosen.model} has no certificate on its card; leave out --stored to measure it"
            )
        found = read_certificate(checkpoint.card["certificate"])
        deliver(found, chosen, {}, "certificate.json", certificate_figures)
        return 0
    if isinstance(checkpoint.model, AlgoFormer):
        if chosen.texts or chosen.references:
            raise ValueError("--texts and --references are for models of text; this one answers prompts")
        known = load_contender(chosen.model)
        found = certify(known.model, known.task, reach=chosen.reach, prompts=chosen.prompts, seed=chosen.seed)
    else:
        from algoformer.cli.certify_text import certify_text
        from algoformer.insight.certify import PROMPTS

        most = PROMPTS if chosen.prompts is None else chosen.prompts
        found = certify_text(
            checkpoint, chosen.texts, reach=chosen.reach, most=most, references=chosen.references
        )
    found = with_provenance(found, label_of(chosen.model), ["certify", *arguments], start)
    deliver(found, chosen, {"certificate": found.to_data()}, "certificate.json", certificate_figures)
    return 0
