import pytest

from algoformer.common.names import check_choice, did_you_mean

CHOICES = ("linear", "chain", "robust")


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_is_accepted(choice: str) -> None:
    check_choice("task", choice, CHOICES)


def test_a_near_miss_is_answered_with_the_nearest_choice_and_all_of_them() -> None:
    words = r"^unknown task 'chian' \(did you mean 'chain'\?\); choose from linear, chain, robust$"
    with pytest.raises(ValueError, match=words):
        check_choice("task", "chian", CHOICES)


@pytest.mark.parametrize("value", ["qqq", None, ["linear"], 3])
def test_what_is_near_to_nothing_is_answered_with_all_choices(value: object) -> None:
    with pytest.raises(ValueError, match=r"^unknown task .*; choose from linear, chain, robust$") as caught:
        check_choice("task", value, iter(CHOICES))
    assert repr(value) in str(caught.value)


def test_the_hint_names_the_nearer_of_two() -> None:
    assert did_you_mean("steps_", ["step", "steps"]) == " (did you mean 'steps'?)"
    assert did_you_mean("zzz", ["step", "steps"]) == ""
