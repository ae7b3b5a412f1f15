"""What stands in Redis for jobs and results."""

import asyncio
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from worker.payloads import (
    DEPTH_LIMIT,
    BadPayload,
    RemoteError,
    decode_job,
    dumps,
    encode_job,
    loads,
)

VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**53), 2**53)
    | some.text()
    | some.floats(allow_nan=False, allow_infinity=False),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=10,
)


@given(some.lists(VALUES, max_size=4))
def test_what_is_encoded_is_decoded_again(arguments: list[Any]):
    payload = decode_job(encode_job("search", arguments, enqueued=5))

    assert (payload.function, payload.arguments, payload.enqueued) == ("search", arguments, 5)
    assert (payload.named, payload.version, payload.is_newer) == ({}, 1, False)


def _job(**changes: Any) -> bytes:
    return dumps({"t": None, "f": "f", "a": [], "k": {}, "et": 1} | changes)


def test_a_payload_without_a_version_is_of_the_first():
    assert decode_job(_job(k={"x": 1})).version == 1


def test_a_newer_version_is_told():
    assert decode_job(_job(k={"v": 2})).is_newer


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b'{"f":"f"}',
        b"\xff\xfe",
        pickle.dumps({"t": None, "f": "f", "a": (), "k": {}, "et": 1}),
        b"[" * 100_000,
        _job(a=5),
        _job(f=None),
        _job(k=[]),
        _job(t="1"),
        _job(et="now"),
        _job(et=-1),
        _job(et=10**17),
        _job(k={"v": "1"}),
        _job(k={"v": True}),
        _job(k={"v": 0}),
    ],
)
def test_what_is_no_job_is_a_bad_payload(raw: bytes):
    with pytest.raises(BadPayload):
        decode_job(raw)


def test_the_error_never_shows_the_bytes():
    with pytest.raises(BadPayload) as error:
        decode_job(b'{"secret": hunter2')

    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_depth_is_limited_both_ways():
    deep: Any = []
    for _ in range(DEPTH_LIMIT):
        deep = [deep]

    with pytest.raises(ValueError, match="nested deeper"):
        encode_job("f", [deep], enqueued=1)
    with pytest.raises(BadPayload, match="nested deeper"):
        decode_job(b'{"t":null,"f":"f","k":{},"et":1,"a":' + b"[" * 65 + b"]" * 65 + b"}")


def test_wide_payloads_are_not_deep():
    assert decode_job(encode_job("f", [[[], {}] for _ in range(100)], enqueued=1))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_cannot_say_are_refused(number: float):
    with pytest.raises(ValueError, match="no form in JSON"):
        encode_job("f", [{"x": [number]}], enqueued=1)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", ValueError("x")])
def test_values_that_json_cannot_say_are_refused(value: object):
    with pytest.raises(TypeError):
        encode_job("f", [value], enqueued=1)


def _result(value: object, *, success: bool = False) -> Any:
    return loads(_job(s=success, r=value))["r"]


def test_an_error_comes_back_as_its_type_and_message():
    error = _result(KeyError("name"))

    assert isinstance(error, RemoteError)
    assert (error.type_name, error.message) == ("KeyError", "'name'")
    assert str(_result(error)) == "KeyError: 'name'"


def test_a_cancellation_comes_back_as_one():
    assert isinstance(_result(asyncio.CancelledError()), asyncio.CancelledError)


def test_a_long_message_is_cut():
    assert len(_result(ValueError("x" * 5_000_000)).message) < 5000


def test_a_success_that_looks_like_an_error_stays_what_it_is():
    assert _result({"type": "E", "message": "m"}, success=True) == {"type": "E", "message": "m"}
