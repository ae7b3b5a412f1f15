"""Histories: by hand, and any at all, in turns that keep the pairing law or in none."""

from typing import Any

from hypothesis import strategies as st

from loops.blocks import Raw


def user(content: str | list[Raw], **keys: Any) -> Raw:
    """What a user says, or blocks in a user's message."""
    return {"role": "user", "content": content, **keys}


def says(text: str, **keys: Any) -> Raw:
    """What the model says."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}], **keys}


def asks(*ids: str, name: str = "t", **arguments: Any) -> Raw:
    """A message of the model that calls one tool once for each id."""
    return {"role": "assistant", "content": [call(each, name, **arguments) for each in ids]}


def call(call_id: str, name: str = "t", **arguments: Any) -> Raw:
    """The block of a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def answers(*ids: str, content: str | list[Raw] = "ok") -> Raw:
    """The message with the results of these calls."""
    return user([result(each, content) for each in ids])


def result(call_id: str, content: str | list[Raw] = "ok", **keys: Any) -> Raw:
    """The block of a result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **keys}


def picture(data: str = "aGk=") -> Raw:
    """The block of a picture."""
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


TEXTS = st.sampled_from(["yes", "go on, please", "x" * 300, "да", "中文" * 50])
TEXT_BLOCKS = TEXTS.map(lambda text: {"type": "text", "text": text})
THOUGHTS = TEXTS.map(lambda text: {"type": "thinking", "thinking": text, "signature": "s" * 90})
CONTENTS = TEXTS | st.just([{"type": "text", "text": "seen"}, picture()])
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"path": st.sampled_from(["a.py", "b, c.py"]), "text": st.just("y" * 1_200)}
)
NAMES = st.sampled_from(["read", "edit", "skill", "t"])
USERS = st.builds(user, TEXTS) | st.builds(user, st.lists(TEXT_BLOCKS, min_size=1, max_size=2))
INTERNAL = st.builds(lambda text: user(text, internal=True), TEXTS)
SAYS = st.builds(says, TEXTS) | st.builds(lambda text: says(text, usage={"input": 3}), TEXTS)


@st.composite
def rounds(draw: st.DrawFn) -> list[Raw]:
    """A message with calls and all its results: in any order, in one message or in several."""
    count = draw(st.integers(1, 3))
    before = draw(st.lists(THOUGHTS | TEXT_BLOCKS, max_size=2))
    calls = [call(f"c{each}", draw(NAMES), **draw(ARGUMENTS)) for each in range(count)]
    results = [result(each["id"], draw(CONTENTS)) for each in draw(st.permutations(calls))]
    after = draw(st.lists(TEXT_BLOCKS, max_size=1))
    split = draw(st.integers(0, count - 1))
    parts = [results[:split], [*results[split:], *after]]
    return [
        {"role": "assistant", "content": [*before, *calls]},
        *(user(part) for part in parts if part),
    ]


def numbered(messages: list[Raw]) -> list[Raw]:
    """Return the history with an id of its own for each call and its result."""
    told: list[Raw] = []
    chapter = 0
    for message in messages:
        chapter += message["role"] == "assistant"
        content = message["content"]
        if not isinstance(content, str):
            content = [_renamed(block, chapter) for block in content]
        told.append({**message, "content": content})
    return told


def _renamed(block: Raw, chapter: int) -> Raw:
    key = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
    return {**block, key: f"{block[key]}.{chapter}"} if key else block


CHAPTERS = st.one_of(
    USERS.map(lambda each: [each]),
    INTERNAL.map(lambda each: [each]),
    SAYS.map(lambda each: [each]),
    rounds(),
)

HISTORIES = st.lists(CHAPTERS, max_size=8).map(
    lambda chapters: numbered([message for chapter in chapters for message in chapter])
)
"""Any history that keeps the pairing law, two of one role in a row among them."""

IDS = st.sampled_from(["a", "b", "c"])
BLOCKS = (
    TEXT_BLOCKS
    | st.builds(call, IDS)
    | st.builds(result, IDS)
    | st.just({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    | st.just({"type": "web_search_tool_result", "tool_use_id": "s", "content": []})
)
ODD_HISTORIES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        st.lists(BLOCKS, max_size=3) | TEXTS,
    ),
    max_size=9,
)
"""Any history at all: results that come late, twice, or before their calls; ids that repeat."""
