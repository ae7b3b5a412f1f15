import time
from typing import Any

import pytest

from loops.kit.estimate import PER_MESSAGE, PICTURE, UNSEEN_DOCUMENT, blocks_of, tokens_of
from tests.kit.histories import answers, asks, picture, says, user


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("The quick brown fox jumps over the lazy dog. " * 20, 200, 280),
        ("今日は天気がいいですね" * 20, 200, 240),
        ("你好世界" * 20, 70, 90),
        ("안녕하세요 여러분" * 20, 150, 180),
        ("Привет, как дела? " * 20, 120, 200),
        ("مرحبا بالعالم " * 20, 110, 160),
        ("नमस्ते दुनिया " * 20, 110, 160),
        ("สวัสดีชาวโลก" * 20, 110, 130),
        ("3.14159265, " * 20, 70, 110),
        ("🙂" * 20, 20, 60),
        ("\ud83d half", 2, 4),
    ],
)
def test_a_text_is_weighed_by_its_script(text: str, least: int, most: int) -> None:
    assert least <= tokens_of(text) <= most


def test_a_megabyte_of_any_script_is_weighed_at_once() -> None:
    texts = ["word " * 200_000, "中" * 1_000_000, "да1 " * 250_000]

    begin = time.process_time()
    total = sum(tokens_of(text) for text in texts)

    assert total > 1_500_000
    assert time.process_time() - begin < 0.3


def test_a_message_counts_its_content_and_a_little_more() -> None:
    assert tokens_of(user("word" * 10)) == PER_MESSAGE + 10
    assert tokens_of([user("word" * 10), says("word" * 10)]) > 2 * (PER_MESSAGE + 10)
    assert tokens_of([]) == 0


def test_our_own_keys_of_a_message_do_not_count() -> None:
    noted = user("hello", usage={"input": 5}, attachments=["x" * 9_000])

    assert tokens_of(noted) == tokens_of(user("hello"))


@pytest.mark.parametrize("data", ["aGk=", "A" * 2_000_000])
def test_a_picture_counts_the_same_whatever_its_size(data: str) -> None:
    assert tokens_of(picture(data)) == PICTURE
    assert PICTURE < tokens_of(answers("a", content=[picture(data)])) < PICTURE + 20


@pytest.mark.parametrize(
    ("source", "least", "most"),
    [
        ({"type": "base64", "media_type": "application/pdf", "data": "A" * 4_000}, 1_600, 1_700),
        (
            {"type": "base64", "media_type": "application/pdf", "data": "A" * 4_000_000},
            50_000,
            150_000,
        ),
        ({"type": "base64", "media_type": "image/png", "data": "A" * 4_000_000}, 1_600, 1_700),
        ({"type": "text", "media_type": "text/plain", "data": "word" * 1_000}, 1_000, 1_010),
        ({"type": "content", "content": [{"type": "text", "text": "word" * 10}]}, 10, 20),
        ({"type": "url", "url": "http://x/" + "y" * 90_000}, UNSEEN_DOCUMENT, UNSEEN_DOCUMENT + 9),
    ],
)
def test_a_document_counts_by_its_size(source: dict[str, Any], least: int, most: int) -> None:
    assert least <= tokens_of({"type": "document", "source": source}) <= most


def test_what_a_model_thought_counts_without_its_signature() -> None:
    thought = {"type": "thinking", "thinking": "word" * 10, "signature": "s" * 9_000}

    assert 10 <= tokens_of(thought) <= 20


def test_arguments_count_as_the_json_that_they_are() -> None:
    short = tokens_of(asks("a", name="edit", path="a.py"))
    long = tokens_of(asks("a", name="edit", path="a.py", text="word" * 1_000))

    assert short < 30
    assert 1_000 < long < 1_050


def test_blocks_of_no_known_kind_and_tools_count_as_json() -> None:
    described: dict[str, Any] = {"name": "t", "description": "word" * 100, "input_schema": {}}

    assert tokens_of({"type": "server_tool_use", "id": "s", "input": {"query": "word" * 50}}) > 50
    assert 100 < tokens_of([described]) < 140


@pytest.mark.parametrize("content", [None, 7, ["words"], []])
def test_odd_content_counts_nothing(content: Any) -> None:
    assert tokens_of(user(content)) == PER_MESSAGE
    assert blocks_of(user(content)) == []
