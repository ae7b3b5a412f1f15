import pytest

from loops import errors


def subclasses(cls: type[errors.AgentError]) -> list[type[errors.AgentError]]:
    found: list[type[errors.AgentError]] = []
    for child in cls.__subclasses__():
        found += [child, *subclasses(child)]
    return found


TREE = [each for each in subclasses(errors.AgentError) if vars(errors).get(each.__name__) is each]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in TREE]

    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("error", [*TREE, errors.RunLeft], ids=lambda error: error.__name__)
def test_the_drawing_shows_every_error(error: type) -> None:
    assert error.__name__ in str(errors.__doc__)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UnknownRun, "unknown_run"),
        (errors.RunTimedOut, "timed_out"),
        (errors.ProviderError, "provider_failed"),
    ],
)
def test_a_code_is_the_name_of_its_class_unless_it_says_another(error: type, code: str) -> None:
    assert error.code == code  # type: ignore[attr-defined]  # the tree's classes have one


def test_an_unknown_loop_names_the_known_ones() -> None:
    error = errors.UnknownLoop("writer", ["reader", "clerk"])

    assert str(error) == "no agent is named 'writer'; the app knows 'clerk', 'reader'"


def test_the_raiser_says_whether_a_retry_may_help() -> None:
    assert errors.Overloaded("busy").retryable
    assert not errors.Unauthorized("no").retryable
    assert errors.InvalidRequest("odd", retryable=True, status=400).retryable


def test_a_pass_that_lost_its_run_is_stopped_by_no_except_exception() -> None:
    assert not issubclass(errors.RunLeft, Exception)
