"""`algoformer certify`: what does a loop do beyond its trained depth?"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from algoformer.cli.parse import parse

DESCRIPTION = """Certify how a model's answers behave to 50 times its trained depth.

Examples:
  algoformer certify linear
  algoformer certify runs/linear-looped-smoke-seed0 --reach 20 --out certificate
"""


@dataclass(frozen=True)
class CertifyOptions:
    """Options of `algoformer certify`."""

    model: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(metavar="MODEL", help="Run folder, checkpoint file or shipped model."),
    ]
    reach: Annotated[int, tyro.conf.arg(help="Depth to run to, in multiples of the trained depth.")] = 50
    prompts: Annotated[int, tyro.conf.arg(help="Held-out prompts, at least 8.")] = 12
    seed: Annotated[int, tyro.conf.arg(help="Seed of the held-out prompts.")] = 0
    json: Annotated[bool, tyro.conf.arg(help="Print JSON instead of a table.")] = False
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for certificate.json and plots.")] = None


def run_certify(arguments: list[str]) -> int:
    """Certify a model's depth, print the certificate, and draw it if a folder is given."""
    chosen = parse(CertifyOptions, arguments, command="certify", description=DESCRIPTION)
    from algoformer.cli.insight_results import load_in_context, provenance, write_result
    from algoformer.insight import certify
    from algoformer.report.insight_plots import certificate_figures

    contender = load_in_context(chosen.model, instead="`algoformer evaluate --iterations` scores its depths")
    start = time.monotonic()
    found = certify(
        contender.model, contender.task, reach=chosen.reach, prompts=chosen.prompts, seed=chosen.seed
    )
    command = shlex.join(["algoformer", "certify", *arguments])
    found = replace(found, setting=found.setting | provenance(contender.label, command, start))
    print(found.to_json() if chosen.json else found)
    if chosen.out is not None:
        write_result(found, chosen.out / "certificate.json", certificate_figures)
        print(f"numbers and plots: {chosen.out}", file=sys.stderr if chosen.json else sys.stdout)
    return 0
