from loops.events import Custom, Event, Retry, StreamStart, TextDelta
from loops.output import PublishedText, read_output


def told(*events: Event) -> str:
    published = PublishedText()
    for event in events:
        published.feed(event)
    return published.text


def test_the_output_is_the_text_of_the_last_turn() -> None:
    assert (
        told(TextDelta(0, "a", turn=1), TextDelta(0, "b", turn=2), TextDelta(1, "c", turn=2))
        == "bc"
    )


def test_a_turn_without_text_gives_none() -> None:
    assert told(TextDelta(0, "a", turn=1), StreamStart("m", turn=2)) == ""


def test_text_that_was_taken_back_does_not_count() -> None:
    assert told(TextDelta(0, "a"), Retry(), TextDelta(0, "b")) == "b"


def test_other_events_do_not_matter() -> None:
    assert told(TextDelta(0, "a"), Custom("x"), TextDelta(0, "b")) == "ab"


def test_text_is_read_as_what_it_should_be() -> None:
    assert read_output("3", int) == 3
    assert read_output("3", str) == "3"
    assert read_output("3", None) == "3"
