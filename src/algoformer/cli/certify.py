"""`algoformer certify`: what does a loop do beyond its trained depth?"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from algoformer.cli.parse import parse

DESCRIPTION = """Certify how a model's answers behave to 50 times its trained depth.

Examples:
  algoformer certify linear
  algoformer certify runs/linear-looped-smoke-seed0 --reach 20 --out certificate
  algoformer certify dbpedia --texts texts.txt
  algoformer certify tatoeba_de_en --texts test.de --references test.en --prompts 100
"""


@dataclass(frozen=True)
class CertifyOptions:
    """Options of `algoformer certify`."""

    model: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(metavar="MODEL", help="Run folder, checkpoint file or shipped model."),
    ]
    reach: Annotated[int, tyro.conf.arg(help="Depth to run to, in multiples of the trained depth.")] = 50
    prompts: Annotated[
        int, tyro.conf.arg(help="Held-out prompts, at least 8; for a model of text, lines.")
    ] = 12
    seed: Annotated[int, tyro.conf.arg(help="Seed of the held-out prompts.")] = 0
    texts: Annotated[Path | None, tyro.conf.arg(help="For a model of text: a file with one text a line.")] = (
        None
    )
    references: Annotated[
        Path | None, tyro.conf.arg(help="For a translator: a file with the reference for each text.")
    ] = None
    stored: Annotated[
        bool, tyro.conf.arg(help="Show the certificate on the model's card instead of measuring one.")
    ] = False
    store: Annotated[bool, tyro.conf.arg(help="Add the certificate to the model's card.")] = False
    json: Annotated[bool, tyro.conf.arg(help="Print JSON instead of a table.")] = False
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for certificate.json and plots.")] = None


def run_certify(arguments: list[str]) -> int:
    """Certify a model's depth, print the certificate, and draw it if a folder is given."""
    chosen = parse(CertifyOptions, arguments, command="certify", description=DESCRIPTION)
    from algoformer.checkpoint import add_to_card
    from algoformer.cli.insight_results import provenance, write_result
    from algoformer.cli.measure import check_prompts, load_contender
    from algoformer.insight import DepthCertificate, certify, read_certificate
    from algoformer.model import AlgoFormer
    from algoformer.report.insight_plots import certificate_figures, probability_figures
    from algoformer.shipped import checkpoint_path, load

    check_prompts(chosen.prompts)
    start, checkpoint = time.monotonic(), load(chosen.model)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made is noticed at once
    found: Any
    if chosen.stored:
        if "certificate" not in checkpoint.card:
            raise ValueError(
                f"{chosen.model} has no certificate on its card; leave out --stored to measure it"
            )
        found = read_certificate(checkpoint.card["certificate"])
    elif isinstance(checkpoint.model, AlgoFormer):
        if chosen.texts or chosen.references:
            raise ValueError(
                f"{chosen.model} is not a model of text, so it cannot run on --texts; leave them out: "
                "its prompts are drawn from its task"
            )
        known = load_contender(chosen.model)
        found = certify(known.model, known.task, reach=chosen.reach, prompts=chosen.prompts, seed=chosen.seed)
    else:
        from algoformer.cli.certify_text import certify_text

        found = certify_text(
            checkpoint,
            chosen.texts,
            reach=chosen.reach,
            most=chosen.prompts,
            references=chosen.references,
        )
    if not chosen.stored:
        command = shlex.join(["algoformer", "certify", *arguments])
        found = replace(found, setting=found.setting | provenance(chosen.model.stem, command, start))
        if chosen.store:
            add_to_card(checkpoint_path(chosen.model), {"certificate": found.to_data()})
    print(found.to_json() if chosen.json else found)
    if chosen.out is not None:
        figures = certificate_figures if isinstance(found, DepthCertificate) else probability_figures
        write_result(found, chosen.out / "certificate.json", figures)
        print(f"numbers and plots: {chosen.out}", file=sys.stderr if chosen.json else sys.stdout)
    return 0
