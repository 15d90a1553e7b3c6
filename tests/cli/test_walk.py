"""How many files a command passes through, and how often it goes from one to another."""

import subprocess
import sys
from pathlib import Path

WALK = """
import sys
from inspect import CO_OPTIMIZED

import algoformer
from algoformer.cli import main

package, files = algoformer.__path__[0], []

def note(frame, event, _):
    code = frame.f_code
    # the bodies of modules and classes are not optimized, those of functions are
    if event == "call" and code.co_flags & CO_OPTIMIZED and code.co_filename.startswith(package):
        if files[-1:] != [code.co_filename]:
            files.append(code.co_filename)

sys.setprofile(note)
status = main(sys.argv[1:])
sys.setprofile(None)
print(status, len(set(files)), len(files) - 1)
"""


def test_a_training_command_goes_through_few_files(tmp_path: Path) -> None:
    words = ["train", "--steps", "2", "--no-evaluate", "--no-tensorboard", "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", WALK, *words], capture_output=True, text=True, check=True)
    status, files, transitions = map(int, done.stdout.split()[-3:])
    assert status == 0
    assert files <= 35
    assert transitions <= 300
