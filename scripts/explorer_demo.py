"""Train the small model that docs/explorer.md shows, and write its page.

Usage: python scripts/explorer_demo.py [FOLDER]

An AlgoFormer of one layer per module learns linear regression in one dimension. The loss is on the last four
of ten iterations only, so that the loop has room to settle.
"""

from __future__ import annotations

import sys
from pathlib import Path

from algoformer import programs, tasks
from algoformer.cli.explore_pages import make_page
from algoformer.training import Experiment, TrainConfig, train

RECIPE = Experiment(
    program=programs.algoformer(steps=10, heads=4),
    data=tasks.LinearRegression(dim=1, points=11),
    width=32,
    training=TrainConfig(
        steps=2200,
        batch_size=32,
        optimizer="muon",
        lr=3e-3,
        schedule="cosine",
        warmup=0.02,
        clip_norm=1.0,
        window=4,
        backprop="full",
        burn_in=(0, 0, 10),
        loss="log",
        log_every=100,
        checkpoint_every=1100,
    ),
)
"""The experiment whose page is shown in docs/explorer.md."""


def main(folder: Path) -> None:
    """Train, write the page, and print its conclusion."""
    train(RECIPE, folder / "run")
    print(make_page(str(folder / "run"), folder / "explorer.html", prompts=256))
    print(f"page: {folder / 'explorer.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "explorer-demo"))
