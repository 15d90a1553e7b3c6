"""Write the small sets of text into the package: `python -m scripts.small_corpora`."""

import lzma
from pathlib import Path

from scripts.small_corpora.corpora import GENERATORS, as_json

FOLDER = Path(__file__).parents[2] / "src" / "algoformer" / "language" / "data"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, generate in GENERATORS.items():
        path = FOLDER / f"{name}.json.xz"
        path.write_bytes(lzma.compress(as_json(generate()), preset=9 | lzma.PRESET_EXTREME))
        print(f"{path}: {path.stat().st_size:,} bytes")
