"""Other people's servers were asked of the providers as they stand, and all was well."""

from tests.peers.providers import result


def test_what_was_kept_is_of_the_providers_as_they_are() -> None:
    told = result.load()["digest"]

    assert told == result.digest(), "the providers, or their checks, changed: run make test-peers"


def test_every_check_with_other_peoples_servers_has_passed() -> None:
    kept = result.load()["checks"]

    failed = [
        f"{check}[{case}] {outcome}"
        for check, cases in kept.items()
        for case, outcome in cases.items()
        if outcome != "passed"
    ]
    assert failed == []
    assert set(kept) == result.checks(), "a check has no outcome: run make test-peers"
