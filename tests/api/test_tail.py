import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.follower import page_after
from api.frames import Batch, Frame
from api.tail import LIMIT, Tail


def batch(first: int, last: int, size: int = 1) -> Batch:
    return Batch(
        tuple(Frame(seq, b"%d" % seq, "text.delta", b"x" * size) for seq in range(first, last + 1))
    )


def seqs(batches: list[Batch]) -> list[int]:
    return [frame.seq for each in batches for frame in each.frames]


PIECES = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), max_size=30)


@given(PIECES, st.integers(0, 5))
def test_whatever_is_offered_the_tail_has_no_hole_and_nothing_twice(
    pieces: list[tuple[int, int]], start: int
) -> None:
    tail = Tail(start)

    for offset, count in pieces:
        end, first = tail.end, max(1, tail.end + 1 + offset)
        taken = tail.extend(batch(first, first + count - 1))
        assert taken == (first <= end + 1)

    for cursor in range(start, tail.end + 1):
        assert seqs(tail.since(cursor)) == list(range(cursor + 1, tail.end + 1))


def test_a_batch_after_a_hole_is_not_taken() -> None:
    tail = Tail(4)

    assert not tail.extend(batch(6, 7))

    assert tail.end == 4
    assert tail.since(4) == []


def test_what_was_read_from_one_batch_is_cut_off() -> None:
    tail = Tail(0)
    tail.extend(batch(1, 5))

    assert seqs(tail.since(3)) == [4, 5]


def test_readers_of_the_same_place_share_the_same_bytes() -> None:
    tail = Tail(0)
    tail.extend(batch(1, 5))

    (one,), (other,) = tail.since(0), tail.since(0)

    assert one.sse is other.sse


def test_a_tail_forgets_its_oldest_events_beyond_its_limit() -> None:
    tail = Tail(0)
    for seq in range(1, 101):
        tail.extend(batch(seq, seq, size=LIMIT // 10))

    assert tail.end == 100
    assert tail.start > 80
    assert not tail.reaches(tail.start - 2)
    assert seqs(tail.since(tail.start - 1)) == list(range(tail.start, 101))


def test_a_batch_longer_than_the_limit_is_kept_as_the_only_one() -> None:
    tail = Tail(0)
    tail.extend(batch(1, 1))

    tail.extend(batch(2, 2, size=LIMIT + 1))

    assert seqs(tail.since(1)) == [2]
    assert tail.start == 2


def test_what_everybody_has_read_is_dropped() -> None:
    tail = Tail(0)
    tail.extend(batch(1, 3))
    tail.extend(batch(4, 6))

    tail.forget(4)

    assert tail.start == 4
    assert seqs(tail.since(4)) == [5, 6]


def test_a_moved_tail_is_empty_and_goes_on_from_there() -> None:
    tail = Tail(0)
    tail.extend(batch(1, 3))

    tail.move(2)

    assert not tail.reaches(3)
    assert tail.extend(batch(3, 3))
    assert seqs(tail.since(2)) == [3]


@pytest.mark.parametrize(
    ("page", "size", "then"),
    [(16, 1000, 32), (200, 1000, 200), (64, 128 * 1024, 64), (64, 1024 * 1024, 16), (1, 10**7, 1)],
)
def test_the_next_page_is_sized_by_what_the_last_one_came_to(page: int, size: int, then: int):
    assert page_after(page, size) == then
