"""The journal as a pass meets it: each unit by its key, each turn once."""

from loops.events import TextDelta
from loops.messages import Message
from loops.model import ModelRequest
from worker.journal import Journal, encode_turn


def request(text: str = "hello", system: str = "") -> ModelRequest:
    return ModelRequest("m", (Message(role="user", content=text),), system=system)


def record(number: int, text: str = "x") -> bytes:
    return encode_turn(number, [TextDelta(0, text)])


def key_of(asked: ModelRequest) -> str:
    return Journal({}).turn_key(asked)[0]


def test_equal_requests_of_a_pass_are_numbered():
    journal = Journal({})

    keys = [journal.turn_key(request())[0] for _ in range(3)]

    assert [key.rpartition(":")[2] for key in keys] == ["0", "1", "2"]
    assert len({key.rpartition(":")[0] for key in keys}) == 1


def test_a_later_pass_gives_the_same_keys():
    asked = [request(), request("other"), request(), request(system="it is 9")]
    first, second = Journal({}), Journal({})

    assert [first.turn_key(each) for each in asked] == [second.turn_key(each) for each in asked]


def test_a_recorded_turn_is_met_by_what_is_asked():
    key = key_of(request())

    journal = Journal({key: record(1, "recorded")})

    assert journal.turn_key(request()) == (key, True)
    turn = journal.turn(key)
    assert turn is not None
    assert turn.is_complete
    assert turn.events == (TextDelta(0, "recorded"),)


def test_a_turn_that_was_cut_is_met_as_the_part_that_was_written():
    key = key_of(request())

    journal = Journal({f"part:{key}": b"1 " + record(1, "half")})

    turn = journal.turn(journal.turn_key(request())[0])
    assert turn is not None
    assert not turn.is_complete
    assert turn.events == (TextDelta(0, "half"),)


def test_a_clock_in_the_system_prompt_meets_the_oldest_turn_that_no_request_has_met():
    old, new = (key_of(request(system=f"it is {hour}")) for hour in (9, 10))
    journal = Journal({new: record(2), old: record(1)})

    assert journal.turn_key(request(system="it is 11")) == (old, False)
    assert journal.turn_key(request(system="it is 12")) == (new, False)
    third, is_exact = journal.turn_key(request(system="it is 13"))
    assert is_exact
    assert journal.turn(third) is None


def test_an_exact_match_goes_before_an_older_turn_with_another_clock():
    old, new = (key_of(request(system=f"it is {hour}")) for hour in (9, 10))
    journal = Journal({old: record(1), new: record(2)})

    assert journal.turn_key(request(system="it is 10")) == (new, True)
    assert journal.turn_key(request(system="it is 9")) == (old, True)


def test_a_turn_met_by_a_changed_clock_is_not_met_again_by_its_own():
    old = key_of(request(system="it is 9"))
    journal = Journal({old: record(1)})
    journal.turn_key(request(system="it is 11"))

    key, is_exact = journal.turn_key(request(system="it is 9"))

    assert (key.rpartition(":")[0], is_exact) == (old.rpartition(":")[0], True)
    assert key != old


def test_turns_that_no_request_has_met_are_told_oldest_first():
    keys = [key_of(request(text)) for text in ("a", "b", "c")]
    journal = Journal({key: record(3 - place) for place, key in enumerate(keys)})
    assert journal.unmet_turns() == keys[::-1]

    journal.turn_key(request("b"))

    assert journal.unmet_turns() == [keys[2], keys[0]]


def test_steps_are_known_by_their_key_and_are_no_turns():
    journal = Journal({"step:pay:0": b"7"})

    assert journal.numbered("step:pay") == "step:pay:0"
    assert journal.numbered("step:pay") == "step:pay:1"
    assert journal.numbered("step:ship") == "step:ship:0"
    assert (journal.unit("step:pay:0"), journal.unit("step:pay:1")) == (b"7", None)
    assert journal.unmet_turns() == []
