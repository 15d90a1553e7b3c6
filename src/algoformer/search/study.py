"""The Optuna study of a search: where it is stored, and whether it belongs to these settings."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algoformer.common.plain_data import UNREADABLE
from algoformer.common.terminal import short
from algoformer.extras import require
from algoformer.search.settings import SearchSettings

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

JOURNAL = "journal.log"
"""The file of a study in the folder of a search."""

SETTINGS = "algoformer"
"""The attribute of a study that holds the settings of its search."""

FIRST_BYTES = b'{"op_code":'
"""The first bytes of every journal of Optuna."""

ATTEMPTS = 4
"""Number of attempts to open a database."""

PATIENCE = 5.0
"""Seconds to wait for the settings of a study that another worker is just creating."""


def open_study(settings: SearchSettings, storage: str | Path | None, name: str) -> Study:
    """Create a study, or join the one that is there. The hand-made program is its first trial.

    A path is a journal file, a text with "://" the URL of a database, and None the memory of this process.
    """
    optuna: Any = require("optuna", extra="search")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    store = None if storage is None else open_storage(storage)
    tools = {"storage": store, "sampler": sampler_of(settings, 0), "pruner": pruner_of(settings)}
    stored: Any = None
    try:
        study: Study = optuna.create_study(study_name=name, direction="minimize", **tools)
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(study_name=name, **tools)
        stored = _stored_settings(study)
    if stored is None:  # a new study, or one whose creator was killed before it had written them
        first = settings.chosen_space.hand_made(settings.experiment)
        if first is not None:
            study.enqueue_trial(first.params, skip_if_exists=True)
        study.set_user_attr(SETTINGS, settings.to_data())
        stored = _stored_settings(study)
    _refuse_other_settings(settings, stored, name)
    return study


def load_study(storage: str | Path, name: str) -> Study:
    """Return the study in a storage, to read it."""
    optuna: Any = require("optuna", extra="search")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if "://" not in str(storage) and not Path(storage).exists():
        raise ValueError(f"{storage} does not exist; it is the journal file of a search")
    try:
        return optuna.load_study(study_name=name, storage=open_storage(storage))
    except KeyError:
        raise ValueError(f"{shown_storage(storage)} has no study named {short(name)}") from None


def open_storage(storage: str | Path) -> BaseStorage:
    """Open a journal file, or the database of a URL."""
    if "://" in str(storage):
        return _open_database(str(storage))
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    path = Path(storage)
    path.parent.mkdir(parents=True, exist_ok=True)
    _refuse_other_file(path)
    lock = JournalFileSymlinkLock(str(path))
    backend = JournalFileBackend(str(path), lock_obj=lock)
    _cut_torn_line(path, lock)
    try:
        return JournalStorage(backend)
    except (*UNREADABLE, AssertionError) as error:
        raise ValueError(f"{path} is not the journal of a study: {short(str(error))}") from None


def shown_storage(storage: str | Path) -> str:
    """Return a storage for messages and files, without the password of a URL.

    >>> shown_storage("postgresql+psycopg://ann:secret@host/studies")
    'postgresql+psycopg://ann:***@host/studies'
    """
    return re.sub(r"(://[^/@:\s]*:)\S*@", r"\1***@", str(storage))


def sampler_of(settings: SearchSettings, seed: int) -> BaseSampler:
    """Return the sampler of the settings."""
    from optuna.samplers import RandomSampler, TPESampler

    if settings.sampler == "random":
        return RandomSampler(seed=seed)
    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def pruner_of(settings: SearchSettings) -> BasePruner:
    """Return successive halving at the rungs of the settings, or no pruning without rungs."""
    from optuna.pruners import NopPruner, SuccessiveHalvingPruner

    if not settings.rungs:
        return NopPruner()
    return SuccessiveHalvingPruner(min_resource=settings.rung_steps, reduction_factor=settings.reduction)


def _open_database(url: str) -> BaseStorage:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    for attempt in range(ATTEMPTS):
        try:
            # no connection stays open between two reports of a trial: workers may be many
            return optuna.storages.RDBStorage(url, engine_kwargs={"poolclass": NullPool})
        except ModuleNotFoundError as error:
            raise ValueError(
                f"the storage {shown_storage(url)} needs the package {error.name!r}, which is not installed; "
                "for PostgreSQL: pip install 'psycopg[binary]', and a URL that begins with "
                "postgresql+psycopg://"
            ) from None
        except (SQLAlchemyError, ValueError, ImportError) as error:
            # two workers that create the tables at the same moment disturb each other once
            if not isinstance(error, SQLAlchemyError) or attempt + 1 == ATTEMPTS:
                said = _first_line(error)
                raise ValueError(f"the storage {shown_storage(url)} cannot be opened: {said}") from None
            time.sleep(0.3)
    raise AssertionError("the last attempt returns or raises")


def _first_line(error: BaseException) -> str:
    return shown_storage(str(error).strip().splitlines()[0][:300]) if str(error).strip() else repr(error)


def _refuse_other_file(path: Path) -> None:
    """Refuse a file that is not a journal before it is opened: Optuna would append to it."""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(FIRST_BYTES))
        if not FIRST_BYTES.startswith(start):
            raise ValueError(f"{path} is not the journal of a study; name another file, or a new one")


def _cut_torn_line(path: Path, lock: Any) -> None:
    """Remove a last line that a full disk or a kill cut off; every line after it would be unreadable."""
    lock.acquire()
    try:
        with path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 2**20))
            tail = file.read()
            if tail and not tail.endswith(b"\n"):
                file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    finally:
        lock.release()


def _stored_settings(study: Study) -> Any:
    """Return the settings of a study; wait a little for a worker that is just creating it."""
    until = time.monotonic() + PATIENCE
    while (found := study.user_attrs.get(SETTINGS)) is None and time.monotonic() < until:
        if study.get_trials(deepcopy=False):  # somebody works on it, so that it is not being created
            break
        time.sleep(0.05)
    return found


def _refuse_other_settings(settings: SearchSettings, stored: Any, name: str) -> None:
    own = settings.to_data()
    if not isinstance(stored, dict):
        raise ValueError(
            f"the study {name!r} was not made by algoformer search; choose another study name or storage"
        )
    if stored == own:
        return
    differing = ", ".join(_differences(own, stored)[:3])
    raise ValueError(
        f"the study {name!r} searches something else ({differing}); "
        "use the settings of the study, or choose another folder, study name or storage"
    )


def _differences(own: Any, stored: Any, path: str = "") -> list[str]:
    """Name the fields in which two settings differ."""
    if isinstance(own, dict) and isinstance(stored, dict):
        names = dict.fromkeys([*own, *stored])
        return [
            found
            for name in names
            for found in _differences(own.get(name), stored.get(name), f"{path}.{name}".lstrip("."))
        ]
    return [] if own == stored else [f"{path} is {short(stored, 40)} there and {short(own, 40)} here"]
