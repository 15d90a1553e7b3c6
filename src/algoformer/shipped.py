"""Load a checkpoint: a file, the folder of a run, or a model that comes with the library, by its name."""

from __future__ import annotations

from pathlib import Path

from algoformer.checkpoint import BEST, LATEST, Checkpoint, load_checkpoint
from algoformer.common.names import did_you_mean

PACKAGE = Path(__file__).resolve().parent
PLACES = (PACKAGE / "checkpoints", PACKAGE.parents[1] / "checkpoints")
"""The folders of shipped models: inside an installed wheel, or beside the sources in a checkout."""

CHECKOUT_ONLY = ("books",)
"""Shipped models that are left out of the wheel, which would be too large with them."""


def load(name: Path | str, *, best: bool = False) -> Checkpoint:
    """Load a checkpoint: a file, the folder of a run, or a shipped model such as "linear".

    Args:
        name: the path or the name.
        best: take the weights of a run that did best in validation, where it was validated.

    Raises:
        ValueError: there is no such file or model, or it cannot be read.
    """
    return load_checkpoint(checkpoint_path(name, best=best))


def checkpoint_path(name: Path | str, *, best: bool = False) -> Path:
    """Return the file that `load` reads.

    A folder without a checkpoint does not hide a shipped model of the same name.
    """
    path = Path(name)
    if path.is_dir():
        file = path / (BEST if best and (path / BEST).exists() else LATEST)
        return file if file.exists() or str(name) not in shipped_names() else shipped_path(str(name))
    if path.exists() or path.suffix or len(path.parts) > 1:
        return path
    return shipped_path(str(name))


def shipped_names() -> list[str]:
    """Return the names of the models that come with the library, as far as they are here."""
    return sorted({file.stem for place in PLACES for file in place.glob("*.safetensors")})


def shipped_path(name: str) -> Path:
    """Return the file of a shipped model; the message about any other names those that there are here."""
    for place in PLACES:
        if (place / f"{name}.safetensors").is_file():
            return place / f"{name}.safetensors"
    if name in CHECKOUT_ONLY:
        raise ValueError(
            f"the model {name!r} comes with a checkout of the repository only: "
            "use a checkout, or give the path of a checkpoint"
        )
    names = shipped_names()
    if not names:
        raise ValueError(
            f"{name!r} is not a file, and this installation comes without trained models: "
            "use a checkout of the repository, or give the path of a checkpoint"
        )
    hint = did_you_mean(name, names)
    raise ValueError(f"{name!r} is neither a file nor a shipped model{hint}; known are {', '.join(names)}")
