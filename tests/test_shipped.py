"""Checkpoints by path, by run folder and by name."""

from pathlib import Path

import pytest

import algoformer
from algoformer import shipped
from algoformer.training import train
from training.small import same_weights, small


def test_a_checkpoint_is_loaded_by_name_by_file_and_by_run(tmp_path: Path) -> None:
    named = algoformer.load("linear")
    by_file = algoformer.load(shipped.shipped_path("linear"))
    assert same_weights(named.model, by_file.model)
    assert named.card["step"] == 40000
    run = train(small(steps=1), tmp_path / "run")
    assert same_weights(algoformer.load(tmp_path / "run").model, run.model)


def test_a_folder_hides_the_shipped_model_of_its_name_only_with_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("linear").mkdir()
    assert algoformer.load("linear").card["step"] == 40000
    run = train(small(steps=1), Path("linear"))
    assert same_weights(algoformer.load("linear").model, run.model)
    with pytest.raises(ValueError, match="does not exist"):
        algoformer.load(tmp_path)


def test_what_is_not_there_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"neither a file nor a shipped model \(did you mean 'linear'\?\)"):
        algoformer.load("linaer")
    with pytest.raises(ValueError, match="does not exist"):
        algoformer.load(tmp_path / "none.safetensors")
    monkeypatch.setattr(shipped, "PLACES", (tmp_path,))
    for name in shipped.CHECKOUT_ONLY:
        with pytest.raises(
            ValueError, match=f"model '{name}' comes with a checkout of the repository only: use"
        ):
            algoformer.load(name)
    with pytest.raises(ValueError, match="comes without trained models: use a checkout"):
        algoformer.load("linear")
