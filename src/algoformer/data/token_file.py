"""A plain text corpus as memory-mapped token files, so that it may be larger than memory."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from algoformer.common.files import check_input, read_json, write_atomically, write_json
from algoformer.data.files import read_text
from algoformer.language.tokenizer import EOS, Tokenizer

BLOCK = 2048
"""Characters of a block, the unit that is tokenized at a time and goes into one split as a whole."""

FORMAT = "an end after each file with text in the split, and the starts of blocks"
"""The layout of token files. It is part of their key, so files of another layout are made again."""

VARIABLE = "ALGOFORMER_CACHE"
"""The environment variable that names the folder for token files."""

SPLITS = ("train", "valid", "test")

GIVEN = {"train": "files", "valid": "validation", "test": "test"}
"""The setting with the files of each split."""

PERIOD = 20
"""One in this many blocks is held out for validation, and one for the test."""


@dataclass(frozen=True, eq=False)
class TokenFile:
    """The tokens of a split and the places where its blocks begin, memory-mapped, and its bytes of text."""

    tokens: np.ndarray
    starts: np.ndarray
    text_bytes: int

    def __len__(self) -> int:
        return len(self.tokens)

    def bytes_between(self, first: int, last: int, tokenizer: Tokenizer) -> int:
        """Return the bytes of text that the tokens `first` to `last` - 1 stand for."""
        counts = np.bincount(self.tokens[first:last], minlength=len(tokenizer))
        found = sum(int(count) * len(tokenizer.piece(token)) for token, count in enumerate(counts) if count)
        # a block is tokenized with a space before it, which is not in the text
        begun = np.searchsorted(self.starts, [first, last])
        return found - int(begun[1] - begun[0])


def text_files(paths: Sequence[str], argument: str = "files") -> list[Path]:
    """Return the files among paths and in folders (`*.txt` and `*.md`), each once, in a fixed order."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix in (".txt", ".md") and one.is_file())
            if not inside:
                raise ValueError(f"{path} holds no .txt or .md file")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            check_input(path, argument, again=True)
            raise ValueError(f"{path} does not exist")
    once: dict[Path, Path] = {}
    for path in found:  # a text that is read twice would be trained on and held out
        once.setdefault(path.resolve(), path)
    return list(once.values())


def files_of_splits(given: Mapping[str, Sequence[str]]) -> dict[str, list[Path]]:
    """Return the files of each split that has files of its own, none of which may be one of the training."""
    found = {split: text_files(paths, GIVEN[split]) for split, paths in given.items() if paths}
    trained = {path.resolve() for path in found["train"]}
    for split in ("valid", "test"):
        for path in found.get(split, ()):
            if path.resolve() in trained:
                raise ValueError(f"{path} is among files and {GIVEN[split]}; leave it out of one of them")
    return found


def text_blocks(path: Path) -> Iterator[str]:
    """Yield a UTF-8 file in blocks of a few thousand characters that end with a line where they can."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            # a line that does not end soon is cut, so that memory is bounded
            while block := file.read(BLOCK) + file.readline(BLOCK):
                yield block
    except UnicodeDecodeError:
        read_text(path)  # reports the line and the byte
        raise


def split_blocks(files: dict[str, list[Path]], split: str, seed: int) -> Iterator[str | None]:
    """Yield the blocks of a split, and None after each file that has some.

    A split without files of its own gets one in twenty blocks of the training files; the seed decides which.
    """
    automatic = {name for name in ("valid", "test") if not files.get(name)}
    own = split != "train" and split not in automatic
    number = 0
    for path in files[split] if own else files["train"]:
        some = False
        for block in text_blocks(path):
            part = held_out_place(number, seed)
            number += 1
            if own or split == (part if part in automatic else "train"):
                some = True
                yield block
        if some:
            yield None


def held_out_place(number: int, seed: int) -> str:
    """Return the split that block `number` would be held out for, or "train".

    One in twenty blocks goes to each of "valid" and "test"; of the first twenty, among the first four, so
    that small corpora have them too.
    """
    group, place = divmod(number, PERIOD)
    chosen = random.Random(f"{seed}/{group}/split").sample(range(PERIOD if group else 4), 2)
    return {chosen[0]: "valid", chosen[1]: "test"}.get(place, "train")


def token_files(
    files: dict[str, list[Path]], tokenizer: Tokenizer, *, seed: int, cache: Path | None = None
) -> dict[str, TokenFile]:
    """Tokenize the files of each split into token files, or reuse those that were made before.

    A split without files of its own gets blocks of the training files.
    """
    key = hashlib.sha256(json.dumps([seed, tokenizer.to_json(), BLOCK, FORMAT]).encode())
    for name, paths in files.items():
        for path in paths:
            stat = path.stat()
            key.update(f"{name}/{path.resolve()}/{stat.st_size}/{stat.st_mtime_ns}".encode())
    folder = (cache or cache_folder()) / key.hexdigest()[:24]
    index = folder / "index.json"
    if not index.exists():
        write_json(index, _write(folder, files, tokenizer, seed))
    sizes = read_json(index)
    return {name: _read(folder, name, int(sizes[name]["bytes"])) for name in SPLITS}


def cache_folder() -> Path:
    """Return the folder for token files: $ALGOFORMER_CACHE, or the user's cache, or a temporary folder."""
    told = os.environ.get(VARIABLE)
    if told:
        return Path(told)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "algoformer"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / "algoformer"
    return home


def _write(
    folder: Path, files: dict[str, list[Path]], tokenizer: Tokenizer, seed: int
) -> dict[str, dict[str, int]]:
    sizes = {}
    for name in SPLITS:
        sizes[name] = count = {"bytes": 0, "tokens": 0}
        starts: list[int] = []

        def fill(
            temporary: Path, name: str = name, count: dict[str, int] = count, starts: list[int] = starts
        ) -> None:
            with temporary.open("wb") as out:
                for block in split_blocks(files, name, seed):
                    if block is not None:
                        starts.append(count["tokens"])
                    ids = [EOS] if block is None else tokenizer.encode(block)
                    count["bytes"] += len((block or "").encode("utf-8"))
                    count["tokens"] += len(ids)
                    out.write(np.array(ids, dtype=np.uint16).tobytes())

        write_atomically(folder / f"{name}.tokens", fill)
        write_atomically(folder / f"{name}.starts", np.array(starts, dtype=np.int64).tofile)
    return sizes


def _read(folder: Path, name: str, text_bytes: int) -> TokenFile:
    tokens = _mapped(folder / f"{name}.tokens", np.uint16)
    return TokenFile(tokens, _mapped(folder / f"{name}.starts", np.int64), text_bytes)


def _mapped(path: Path, kind: type) -> np.ndarray:
    return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.zeros(0, kind)
