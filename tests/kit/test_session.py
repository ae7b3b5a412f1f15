import asyncio
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from loops.blocks import Raw
from loops.history import inspect
from loops.kit import FileSessions, MemorySessions, Session
from loops.kit.cutting import cut
from loops.kit.plain import said
from loops.kit.session import INTERRUPTED
from loops.kit.stores import SessionConflict
from loops.kit.turn import Turn
from loops.tasks import Owner
from loops.testing import wait_until
from tests.kit.histories import answers, asks, call, says, user
from tests.kit.loop_talks import (
    CALL,
    OTHER,
    PRICE,
    SlowStore,
    asking,
    callouts,
    kept,
    reopened,
    results,
    roles,
    told,
)
from tests.kit.providers import ScriptedProvider

KEY = '[null,"chat"]'
WORDS = "word " * 400


async def opened(*messages: Raw, store: Any = None) -> Session:
    """Return a session that holds these messages, as the next run of it opens it."""
    context = asking(sessions=store or MemorySessions())
    before = await Session.open(asking(sessions=context.sessions, messages=[]))
    before.messages += messages
    await before.checkpoint()
    return await Session.open(context)


async def test_a_call_whose_result_is_lost_is_told_as_one_that_may_have_happened() -> None:
    session = await opened(user("Go."), asks("c1", "c2"), answers("c1"))

    shown = session.context()

    first, second = results(shown)
    assert first["content"] == "ok"
    assert second["content"] == INTERRUPTED
    assert "may or may not" in second["content"]
    assert second["is_error"]


async def test_a_reader_changes_nothing() -> None:
    store = MemorySessions()
    session = await opened(user("Go."), asks("c1"), store=store)
    before = await store.load(KEY)

    session.context()
    await (await Session.open(asking(sessions=store))).checkpoint()

    assert (await store.load(KEY)).entries[:2] == before.entries


async def test_a_whole_history_is_told_as_it_is() -> None:
    talk = [user("Go."), asks("c1", "c2"), answers("c1", "c2"), says("Fine.")]

    session = await opened(*talk)

    assert session.context() == talk
    assert session.issues == []


async def test_of_a_history_with_a_bad_end_the_rest_is_told_as_it_is() -> None:
    good = [each for at in range(20) for each in (user(f"{at}"), says(f"{at}"))]

    session = await opened(*good, user("Go."), asks("c1"))

    assert session.context()[:41] == [*good, user("Go.")]
    assert [each.kind for each in session.issues] == ["unanswered_call"]


async def test_a_new_session_is_empty() -> None:
    session = await Session.open(asking())

    assert (session.messages, session.context(), session.issues) == ([], [], [])


async def test_a_damaged_session_is_told_and_the_run_goes_on() -> None:
    store = MemorySessions()
    await opened(user("Go."), asks("c1"), store=store)
    provider = ScriptedProvider(["Fine."])

    events = await told(asking(sessions=store), provider)

    assert callouts(events) == ["Parts of this conversation were damaged and are mended."]
    assert inspect(said(provider.asked[0]["messages"])) == []


def tear(folder: Path) -> None:
    """Tear the second line of the one file that is not empty."""
    [file] = [each for each in folder.rglob("*") if each.is_file() and each.stat().st_size]
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:9] + b"\n"
    file.write_bytes(b"".join(lines))


async def test_a_torn_entry_keeps_no_session_from_being_opened(tmp_path: Path) -> None:
    store = FileSessions(tmp_path)
    await opened(user("One."), says("Two."), user("Three."), says("Four."), store=store)
    tear(tmp_path)

    provider = ScriptedProvider(["Fine."])
    await told(asking(sessions=FileSessions(tmp_path)), provider)

    contents = [each["content"] for each in provider.asked[0]["messages"]]
    assert contents[0] == "One."
    assert contents[-2:] == [says("Four.")["content"], "How is it?"]


async def test_whoever_reads_in_the_middle_of_a_run_moves_nothing() -> None:
    context = asking()

    async def look(inp: dict[str, Any]) -> str:
        reader = await Session.open(asking("And?", sessions=context.sessions))
        reader.context()
        return "seen"

    await told(context, ScriptedProvider([[CALL], "Fine."]), handlers={"weather": look})

    window = await context.sessions.load(KEY)
    assert [each.index for each in window.entries] == [0, 1, 2, 3]
    assert roles([each.message for each in window.entries]) == ["user", "assistant"] * 2


async def test_of_two_runs_at_one_place_the_second_is_refused() -> None:
    store = MemorySessions()
    first = await Session.open(asking(sessions=store))
    second = await Session.open(asking(sessions=store))
    await first.add_user("I am first.")

    with pytest.raises(SessionConflict):
        await second.add_user("I am second.")

    assert await kept(asking(sessions=store)) == [user("I am first.")]


async def test_a_checkpoint_that_was_cancelled_is_made_up_for_in_the_right_place() -> None:
    store = SlowStore(2)
    session = await Session.open(asking(sessions=store))
    await session.add_user("One.")
    session.messages.append(says("Two."))
    owner = Owner()
    owner.start(session.checkpoint(), name="checkpoint")
    await wait_until(lambda: store.count == 2, for_="the append")
    await owner.close()
    assert not session.is_kept

    session.messages.append(user("Three."))
    await session.checkpoint()

    assert await kept(asking(sessions=store)) == [user("One."), says("Two."), user("Three.")]
    assert session.is_kept


async def test_what_a_person_said_is_kept_when_adding_it_returns() -> None:
    context = asking()
    session = await Session.open(context)

    await session.add_user("Hello.")

    assert await kept(context) == [user("Hello.")]


async def test_what_stands_beside_a_message_is_kept_and_no_model_is_told() -> None:
    store = MemorySessions()
    session = await Session.open(asking(sessions=store))
    await session.add_user("See this.", attachments=["a.png"], approvals=())

    again = await reopened(asking(sessions=store))

    assert again.messages == [user("See this.", attachments=["a.png"])]
    assert again.context() == [user("See this.")]


async def test_what_a_loop_says_itself_does_not_stand_for_what_a_person_said() -> None:
    session = await Session.open(asking("How is it?"))

    await session.add_user("[it is Monday]", internal=True)

    assert session.messages == [user("How is it?"), user("[it is Monday]", internal=True)]


async def test_two_checkpoints_at_once_keep_each_message_once() -> None:
    context = asking()
    session = await Session.open(context)
    await session.add_user("Hello.")
    session.add_turn(Turn([{"type": "text", "text": "Hi."}], "end_turn"))

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(session.checkpoint())
    session.messages.append(says("More."))
    await session.checkpoint()

    assert [each["role"] for each in await kept(context)] == ["user", "assistant", "assistant"]


async def test_a_reply_that_is_added_and_yielded_stands_there_once() -> None:
    session = await Session.open(asking("Hello."))
    content = [{"type": "text", "text": "Hi."}]
    session.messages.append({"role": "assistant", "content": content})

    session.add_turn(Turn(content, "end_turn"))
    await session.checkpoint()

    assert [each["role"] for each in session.messages] == ["user", "assistant"]


async def test_a_rollback_drops_what_was_not_kept_and_nothing_a_person_said() -> None:
    context = asking()
    session = await Session.open(context)
    await session.add_user("Hello.")
    session.add_turn(Turn([{"type": "text", "text": "Hi."}], "end_turn"))

    session.rollback()
    await session.checkpoint()

    assert session.messages == [user("Hello.")]
    assert await kept(context) == [user("Hello.")]


async def test_a_session_without_a_name_ends_with_its_run() -> None:
    context = asking(chat_id=None)
    session = await Session.open(context)

    await session.add_user("Hello.")

    assert context.messages.raw == [user("Hello.")]
    assert (await context.sessions.load(KEY)).length == 0


async def test_each_reply_says_what_it_has_cost() -> None:
    context = asking()

    await told(context, ScriptedProvider([[CALL], "Fine."]), price=PRICE)

    replies = [each for each in (await reopened(context)).messages if each["role"] == "assistant"]
    assert [each["usage"]["cost"] for each in replies] == ["0.000060"] * 2
    assert [each["usage"]["input"] for each in replies] == [10, 10]


async def test_a_reply_is_added_once_however_often_it_is_given() -> None:
    session = await Session.open(asking())
    turn = Turn([{"type": "text", "text": "Hi."}], "end_turn")

    session.add_turn(turn)
    session.add_turn(turn)
    session.add_turn(Turn([], "end_turn"))

    assert session.messages == [says("Hi.")]


async def test_a_run_has_one_session() -> None:
    context = asking()

    assert await Session.open(context) is await Session.open(context)


async def test_a_loop_that_does_not_add_what_was_said_keeps_it_all_the_same() -> None:
    context = asking("Hello?")
    session = await Session.open(context)
    session.add_turn(Turn([{"type": "text", "text": "Hi."}], "end_turn"))

    await session.checkpoint()

    assert await kept(context) == [user("Hello?"), says("Hi.")]


async def test_a_run_that_is_asked_nothing_goes_on_with_what_was_asked_last() -> None:
    store = MemorySessions()
    session = await Session.open(asking(sessions=store))
    await session.add_user("Hello?", attachments=["a.png"])
    provider = ScriptedProvider(["Hi."])

    await told(asking(sessions=store, messages=[]), provider)

    assert provider.asked[0]["messages"] == [user("Hello?")]
    assert await kept(asking(sessions=store)) == [user("Hello?"), says("Hi.")]


async def test_what_a_run_is_given_begins_its_session() -> None:
    given = [ai.user_message("I am Ann."), ai.assistant_message("Hello, Ann.")]
    context = asking(*given, "Who am I?")

    await told(context, ScriptedProvider(["Ann."]))

    assert roles(await kept(context)) == ["user", "assistant"] * 2


async def test_what_a_run_is_given_besides_is_not_said_twice() -> None:
    store = MemorySessions()
    await told(asking("Hello?", sessions=store), ScriptedProvider(["Hi."]))
    provider = ScriptedProvider(["Ann."])

    given = [ai.user_message("Hello?"), ai.assistant_message("Hi.")]
    await told(asking(*given, "Who am I?", sessions=store), provider)

    assert roles(provider.asked[0]["messages"]) == ["user", "assistant", "user"]


async def test_two_users_have_two_sessions_of_one_name() -> None:
    store = MemorySessions()
    await told(asking("I am Ann.", sessions=store, user="ann"), ScriptedProvider(["Hi."]))
    provider = ScriptedProvider(["Hi."])

    await told(asking("And I?", sessions=store, user="bob"), provider)

    assert provider.asked[0]["messages"] == [user("And I?")]


async def test_a_session_is_summed_up_by_any_provider_and_nothing_is_lost() -> None:
    store = MemorySessions()
    talk = [user(WORDS), says(WORDS), user(WORDS), says("Four."), user("Five."), says("Six.")]
    session = await opened(*talk, store=store)
    provider = ScriptedProvider(["<summary>They talked.</summary>"])

    summary = await session.compact(provider, 20)

    assert summary is not None
    assert summary.text == "They talked."
    assert (await store.load(KEY)).length == 6
    again = await Session.open(asking(sessions=store))
    assert "They talked." in again.context()[0]["content"]
    assert again.context()[2:] == [user("Five."), says("Six.")]


async def test_a_session_is_cleared_only_if_it_is_worth_it() -> None:
    rounds = [asks("c1"), answers("c1", content="x" * 4_000), says("Fine.")]
    session = await opened(user("Go."), *rounds, user("Go on."), says("Yes."))

    is_cleared = [await session.clear(3, 2_000), await session.clear(3, 500)]

    assert is_cleared == [False, True]
    assert session.messages[2] == answers("c1", content="x" * 4_000)
    assert "x" not in str(results(session.context()))
    assert not await session.clear(3, 500)


async def test_a_session_of_tool_rounds_is_cut_at_a_place_that_there_is() -> None:
    rounds = [
        each
        for at in range(8)
        for each in (asks(f"c{at}", city=WORDS), answers(f"c{at}", content=WORDS))
    ]
    session = await opened(user("Go."), *rounds)
    provider = ScriptedProvider([f"<summary>Part {number}.</summary>" for number in range(3)])

    places = [session.first_kept]
    for _ in range(3):
        await session.compact(provider, 1_500)
        places.append(session.first_kept)

    assert places == sorted(places)
    assert all(place >= 0 for place in places)
    assert cut(session.messages, 1_500, -1) is not None
    assert inspect(said(session.context())) == []


async def test_a_call_that_was_answered_keeps_its_answer_when_the_session_is_opened_again() -> None:
    context = asking()
    await told(context, ScriptedProvider([[CALL, OTHER], "Fine."]))

    shown = (await reopened(context)).context()

    assert [each["content"] for each in results(shown)] == ["sunny in Rome", "sunny in Oslo"]
    assert call("c1") not in shown
