import platform

import pytest
import torch

from algoformer.common.devices import device_name, pick_device


@pytest.mark.parametrize("there", [True, False])
def test_auto_is_a_gpu_if_there_is_one(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert pick_device("auto") == ("cuda" if there else "cpu")


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_with_the_remedy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"^device {name} .*; choose cpu or auto$"):
        pick_device(name)


def test_a_cpu_is_named_with_its_architecture_and_threads() -> None:
    name = device_name(torch.device("cpu"))
    assert name == f"cpu ({platform.machine()}, {torch.get_num_threads()} threads)"


def test_a_gpu_is_named_by_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    assert device_name(torch.device("cuda", 1)) == "card 1"
