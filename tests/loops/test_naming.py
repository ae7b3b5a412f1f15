import pytest

from loops.errors import SetupError
from loops.naming import did_you_mean, is_name, refuse_unknown


@pytest.mark.parametrize("name", ["a", "look-up_2", "x" * 64])
def test_letters_digits_and_two_signs_make_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "with space", "ü", "x" * 65, "a.b", "a\n", 3, None])
def test_nothing_else_makes_a_name(name: object) -> None:
    assert not is_name(name)


def test_what_is_near_is_named() -> None:
    assert did_you_mean("ap", ["app", "zebra"]) == "; did you mean 'app'?"
    assert did_you_mean("nothing", ["app", "zebra"]) == ""


def test_an_unknown_option_is_refused_with_what_is_near_or_with_all() -> None:
    refuse_unknown(["queue"], ["queue", "timeout"], subject="@tool")

    with pytest.raises(SetupError, match="@tool has no option 'time_out'; did you mean 'timeout'"):
        refuse_unknown(["time_out"], ["queue", "timeout"], subject="@tool")
    with pytest.raises(SetupError, match="no option 'x'; it has queue, timeout"):
        refuse_unknown(["x"], ["timeout", "queue"], subject="@tool")
