"""Pieces run side by side on a CPU, one thread each, with results in order."""

import threading
from collections.abc import Iterator

import pytest
import torch

from algoformer.common.devices import run_side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_threads_of_their_own(two_threads: None) -> None:
    meeting = threading.Barrier(2)

    def piece(number: int) -> tuple[int, int, int]:
        if number < 2:
            meeting.wait()  # nobody passes unless two pieces are under way at once
        return number, torch.get_num_threads(), threading.get_ident()

    found = run_side_by_side([lambda number=number: piece(number) for number in range(7)], CPU)
    assert [number for number, _, _ in found] == list(range(7))
    assert {threads for _, threads, _ in found} == {1}
    assert len({thread for _, _, thread in found}) == 2
    assert torch.get_num_threads() == 2


def test_one_piece_and_other_devices_stay_in_this_thread(two_threads: None) -> None:
    here = threading.get_ident()
    assert run_side_by_side([threading.get_ident], CPU) == [here]
    assert run_side_by_side([threading.get_ident] * 3, torch.device("meta")) == [here] * 3
    assert run_side_by_side([], CPU) == []


def test_an_error_reaches_the_caller_and_threads_are_restored(two_threads: None) -> None:
    with pytest.raises(ZeroDivisionError):
        run_side_by_side([lambda: 1, lambda: 1 // 0, lambda: 2], CPU)
    assert torch.get_num_threads() == 2
