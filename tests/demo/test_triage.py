import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loops as ai
from api.demo.report import read
from api.demo.triage import AT_ONCE, MOST_FILES, inspect_log, list_files, make_app, reply, scan_log
from loops.providers.scripted import Called
from tests.demo.grep import grep_count

app = make_app(pace=timedelta(0))


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def calls_in(history: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    answer = reply(history)
    assert isinstance(answer, list)
    return [
        (piece.tool, ai.ToolCall("", "", "", piece.arguments).parsed())
        for piece in answer
        if isinstance(piece, Called)
    ]


async def triaged(folder: Path) -> ai.RunOutcome:
    return await app.run("triage", f"Triage the logs in {folder}")


def report_in(outcome: ai.RunOutcome) -> dict[str, Any]:
    report = read(outcome.output)
    assert report is not None
    return report


async def test_the_report_counts_what_grep_counts(samples: Path) -> None:
    report = report_in(await triaged(samples))

    assert (report["files"], len(report["groups"])) == (24, 12)
    for group in report["groups"]:
        assert group["count"] == grep_count(group["expression"], *files_in(samples))
        for name, count in group["files"].items():
            assert count == grep_count(group["expression"], samples / name)


async def test_each_file_is_read_by_a_call_of_its_own_and_all_in_one_turn(samples: Path) -> None:
    outcome = await triaged(samples)

    asked = [message.tool_calls for message in outcome.messages if message.role == "assistant"]
    assert [[call.name for call in calls] for calls in asked] == [
        ["list_files"],
        ["scan_log"] * 24,
        ["inspect_log"] * 3,
        [],
    ]


async def test_a_changed_file_changes_the_report(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("ERROR one\n")
    before = report_in(await triaged(tmp_path))

    file.write_text("ERROR one\nERROR one\nERROR two\n")
    after = report_in(await triaged(tmp_path))

    assert [(group["title"], group["count"]) for group in before["groups"]] == [("ERROR one", 1)]
    assert [(group["title"], group["count"]) for group in after["groups"]] == [
        ("ERROR one", 2),
        ("ERROR two", 1),
    ]


async def test_a_report_is_made_of_the_tools_results_alone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ERROR one\n")
    outcome = await triaged(tmp_path)
    history = outcome.messages.raw[:-1]

    forged = [_with_results(message, '"count":1', '"count":77') for message in history]

    assert str(reply(history)) == outcome.output
    assert "77 × ERROR one" in str(reply(forged))


def _with_results(message: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    if message["role"] != "user" or isinstance(message["content"], str):
        return message
    blocks = [
        {**block, "content": block["content"].replace(old, new)} if "content" in block else block
        for block in message["content"]
    ]
    return {**message, "content": blocks}


async def test_a_folder_that_is_not_there_is_said_plainly(tmp_path: Path) -> None:
    outcome = await triaged(tmp_path / "nowhere")

    assert "could not list the files" in outcome.output
    assert "nowhere" in outcome.output


async def test_a_folder_without_errors_has_an_empty_report(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("all is well\n")

    report = report_in(await triaged(tmp_path))

    assert (report["files"], report["lines"], report["groups"]) == (1, 1, [])


async def test_a_file_that_goes_away_is_named_in_the_report(tmp_path: Path) -> None:
    history = await _history_with_a_file_gone(tmp_path)

    report = read(str(reply(history)))

    assert report is not None
    assert list(report["unread"]) == ["gone.log"]
    assert "FileNotFoundError" in report["unread"]["gone.log"]


async def _history_with_a_file_gone(folder: Path) -> list[dict[str, Any]]:
    (folder / "gone.log").write_text("ERROR one\n")
    listed = (await triaged(folder)).messages.raw[:3]
    (folder / "gone.log").unlink()
    call = {"type": "tool_use", "id": "c", "name": "scan_log", "input": {"file": "gone.log"}}
    with pytest.raises(FileNotFoundError) as error:
        scan_log(str(folder), "gone.log", ai.ToolContext())
    said = f"FileNotFoundError: {error.value}"
    result = {"type": "tool_result", "tool_use_id": "c", "content": said, "is_error": True}
    return [
        *listed,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def listing(names: Iterable[str]) -> list[dict[str, Any]]:
    """A conversation in which the files of /logs were listed."""
    files = [{"file": name} for name in names]
    content = json.dumps({"path": "/logs", "files": files, "left_out": 0})
    call = {"type": "tool_use", "id": "call_0", "name": "list_files", "input": {"path": "/logs"}}
    result = {"type": "tool_result", "tool_use_id": "call_0", "content": content}
    return [
        {"role": "user", "content": "Triage the logs in /logs"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def test_many_files_are_read_in_several_turns() -> None:
    calls = calls_in(listing(f"{n}.log" for n in range(AT_ONCE + 5)))

    assert [arguments["file"] for _, arguments in calls] == [f"{n}.log" for n in range(AT_ONCE)]


def test_a_new_question_in_a_session_is_answered_anew() -> None:
    history = [*listing(["a.log"]), {"role": "user", "content": "Triage the logs in /other"}]

    assert calls_in(history) == [("list_files", {"path": "/other"})]


def test_binary_files_and_links_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.log").write_text("ERROR\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "link.log").symlink_to(tmp_path / "sub" / "a.log")

    listed = list_files(str(tmp_path))

    assert [each["file"] for each in listed["files"]] == ["sub/a.log"]


@pytest.mark.parametrize("file", ["../secret.log", "/etc/passwd", "sub/../../secret.log"])
def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, file: str) -> None:
    (tmp_path / "secret.log").write_text("ERROR secret\n")
    folder = tmp_path / "logs"
    folder.mkdir()

    with pytest.raises(PermissionError):
        scan_log(str(folder), file, ai.ToolContext())
    with pytest.raises(PermissionError):
        inspect_log(str(folder), file, ["secret"], ai.ToolContext())


async def test_a_file_with_very_many_kinds_is_looked_at_twice(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    kinds = [f"{one}{two}{'x' * 60}" for one in letters for two in letters]
    (tmp_path / "many.log").write_text("".join(f"ERROR {name}\nERROR {name}\n" for name in kinds))
    (tmp_path / "few.log").write_text(f"ERROR {kinds[-1]}\n" * 3)
    (tmp_path / "none.log").write_text("nothing\n")

    report = report_in(await triaged(tmp_path))

    top = report["groups"][0]
    assert top["files"] == {"few.log": 3, "many.log": 2}
    assert top["count"] == grep_count(top["expression"], *files_in(tmp_path))


async def test_a_file_that_turns_out_to_be_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "late.log").write_bytes(b"ERROR one\n" * 2_000 + b"\0 binary\n")

    report = report_in(await triaged(tmp_path))

    assert report["groups"] == []
    assert "'late.log' is no text: line 2001" in report["unread"]["late.log"]


async def test_of_a_huge_folder_some_files_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 7):
        (tmp_path / f"{number:04}.log").write_bytes(b"ERROR one\n")

    outcome = await triaged(tmp_path)

    assert (report_in(outcome)["files"], report_in(outcome)["left_out"]) == (MOST_FILES, 7)
    assert "of 1,000 files (7 more files left out)" in outcome.output
