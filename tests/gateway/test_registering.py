"""Callbacks as they are registered: what each entry comes to, and what ends the start."""

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loops.errors import SetupError
from loops.gateway.custom_logger import AgenticLoopPlan, CustomLogger
from loops.gateway.registering import (
    Found,
    checked_callbacks,
    collected,
    found_callbacks,
    found_rules,
    silences,
)

CALLBACK = """
from loops.gateway.custom_logger import CustomLogger

class MyTool(CustomLogger):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        return None
"""


class Quiet(CustomLogger):
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose modules are forgotten when the test is over."""
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__spec__", "")):
            del sys.modules[name]


def write(folder: Path, **modules: str) -> None:
    for name, text in modules.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def find(entry: object, folder: Path) -> Found:
    [found] = found_callbacks(entry, "callbacks", folder=folder, shipped={"web_search": Quiet})
    return found


def test_an_entry_names_an_instance_beside_the_file(folder: Path) -> None:
    write(folder, my_module=f"{CALLBACK}\nmy_tool = MyTool()")

    found = find("my_module.my_tool", folder)

    assert (found.label, found.problem) == ("callbacks entry 'my_module.my_tool'", None)
    assert type(found.value).__name__ == "MyTool"
    assert str(folder) not in sys.path


def test_a_module_may_lie_deeper_and_import_what_lies_beside_the_file(folder: Path) -> None:
    write(folder, sibling="word = 'hi'", pkg__near="near = 1")
    write(folder, pkg__sub=f"{CALLBACK}\nimport sibling\nfrom . import near\ninst = MyTool()")

    found = find("pkg.sub.inst", folder)

    assert found.problem is None
    assert sys.modules["pkg.sub"].sibling.word == "hi"  # type: ignore[attr-defined]  # it is made here


def test_a_module_is_executed_once_and_a_normal_import_gives_the_same(folder: Path) -> None:
    count = (
        "from pathlib import Path\nwith Path(__file__).with_name('n').open('a') as f: f.write('x')"
    )
    write(folder, twice_named=f"{count}\n{CALLBACK}\na = MyTool()\nb = MyTool()")

    first, second = found_callbacks(
        ["twice_named.a", "twice_named.b"], "callbacks", folder=folder, shipped={}
    )
    module = importlib.import_module("twice_named")

    assert (folder / "n").read_text() == "x"
    assert (first.value, second.value) == (module.a, module.b)


def test_the_file_goes_before_what_is_installed_and_its_siblings_after(folder: Path) -> None:
    write(folder, this=f"{CALLBACK}\nown = MyTool()", colorsys="raise SystemExit('not this one')")
    write(folder, uses_it=f"{CALLBACK}\nimport colorsys\nown = MyTool()")
    sys.modules.pop("this", None)
    sys.modules.pop("colorsys", None)

    own, other = find("this.own", folder), find("uses_it.own", folder)

    assert (own.problem, other.problem) == (None, None)


def test_a_file_does_not_take_the_place_of_a_module_that_is_there_already(folder: Path) -> None:
    write(folder, json=f"{CALLBACK}\nown = MyTool()")

    found = find("json.own", folder)

    assert "json.py lies beside the configuration, but 'json' is" in str(found.problem)
    assert "rename the file" in str(found.problem)


def test_a_module_that_is_installed_serves_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder / "site"
    write(folder, site__installed_callbacks=f"{CALLBACK}\nready = MyTool()")
    monkeypatch.syspath_prepend(elsewhere)

    assert find("installed_callbacks.ready", folder).problem is None


def test_a_shipped_callback_is_named_by_a_word(folder: Path) -> None:
    assert isinstance(find("web_search", folder).value, Quiet)


BROKEN = """
class Bare: pass
class Sync(A):
    def async_should_run_agentic_loop(self, **arguments): return True, {}
class Gives(A):
    async def async_build_agentic_loop_plan(self, **arguments): yield 1
class Waits(A):
    async def async_post_call_streaming_iterator_hook(self, **arguments): return 1
class Text(A):
    server_fulfilled_tool_names = 'mine'
sync, gives, waits, text, five = Sync(), Gives(), Waits(), Text(), 5
def function(): pass
"""


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("multi.A", "callbacks entry 'multi.A' is the class A; name an instance: add a = A() to"),
        ("multi.A", "add a = A() to multi, and write multi.a"),
        ("multi.HTTPThing", "write multi.ready"),
        ("multi.Bare", "derive it from CustomLogger, and name an instance: add bare = Bare() to"),
        ("multi.five", "is of the type int, and no CustomLogger; name an instance of a class that"),
        ("multi.function", "is the function function, and no CustomLogger"),
        ("multi.redy", "the module 'multi' has no 'redy'; did you mean 'ready'?"),
        ("mutli.ready", "there is no module 'mutli', neither in"),
        ("mutli.ready", "did you mean 'multi'?"),
        ("web_serch", "names no shipped callback; did you mean 'web_search'?"),
        ("otel", "names no shipped callback of web_search (yours is named module.name)"),
        ("s3://bucket/x.inst", "is no path: write module.name"),
        ("..x", "is no path"),
        ("raises.inst", "the module 'raises' raises ValueError: no luck"),
        ("leaves.inst", "the module 'leaves' raises SystemExit: 3"),
        ("wants.inst", "the module 'wants' imports 'nowhere_to_be_found', which is not there"),
        ("wrong.inst", "the module 'wrong' raises SyntaxError:"),
        (5, "callbacks entry 0 is of the type int; write module.name"),
        ("multi.sync", "Sync.async_should_run_agentic_loop is no coroutine function: write async"),
        ("multi.gives", "Gives.async_build_agentic_loop_plan is no coroutine function: return"),
        ("multi.waits", "Waits.async_post_call_streaming_iterator_hook is no async generator"),
        ("multi.text", "Text.server_fulfilled_tool_names is a text: write {'mine'}"),
    ],
)  # fmt: skip
def test_what_would_never_run_is_said_with_the_mend(folder: Path, entry: object, said: str) -> None:
    first = "from loops.gateway.custom_logger import CustomLogger\nclass A(CustomLogger): pass\n"
    third = "class HTTPThing(A): pass\nready = HTTPThing()"
    write(folder, multi=f"{first}{BROKEN}{third}", raises="raise ValueError('no luck')")
    write(folder, leaves="raise SystemExit(3)", wants="import nowhere_to_be_found", wrong="(")

    found = find(entry, folder)

    assert said in str(found.problem)
    assert found.value is None


def test_a_module_that_failed_is_not_left_half_made(folder: Path) -> None:
    write(folder, late=f"{CALLBACK}\ninst = MyTool()\n1 / 0")

    assert "ZeroDivisionError" in str(find("late.inst", folder).problem)
    write(folder, late=f"{CALLBACK}\ninst = MyTool()\n# mended, and a little longer than before")

    assert find("late.inst", folder).problem is None


def test_a_person_who_does_not_want_to_wait_is_heard(folder: Path) -> None:
    write(folder, slow="raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        find("slow.inst", folder)


def test_a_rule_is_a_plain_function(folder: Path) -> None:
    write(folder, rules="def short(text): return True\nasync def slow(text): return True\nfive = 5")
    entries = ["rules.short", "rules.slow", "rules.five", "rules.shrt"]

    short, *others = found_rules(entries, "gateway.post_call_rules", folder=folder)

    assert short.value is sys.modules["rules"].short  # type: ignore[attr-defined]  # it is made here
    slow, five, shrt = (str(each.problem) for each in others)
    assert "entry 'rules.slow' is a coroutine function, and nobody awaits a rule" in slow
    assert "is of the type int; name a function that takes a text" in five
    assert "did you mean 'short'?" in shrt


def wrapped(function: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    call.__wrapped__ = function  # type: ignore[attr-defined]  # as functools.wraps does
    return call


class Decorated(CustomLogger):
    @wrapped
    async def async_agentic_loop_cleanup_hook(
        self, plan: AgenticLoopPlan, kwargs: dict[str, Any]
    ) -> None: ...


def test_a_decorated_method_is_what_it_decorates() -> None:
    callback = Decorated()

    assert checked_callbacks([callback], "App(callbacks=…)") == [callback]


def test_the_original_librarys_class_counts_too() -> None:
    base = type("CustomLogger", (), {"__module__": "litellm.integrations.custom_logger"})
    callback = type("Theirs", (base,), {})()

    assert checked_callbacks([callback], "here") == [callback]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (Quiet(), "here is a list of callbacks, not of the type Quiet: write"),
        ([Quiet(), Quiet], r"here\[1\] is the class Quiet; give an instance: Quiet\(\)"),
        (["web_search"], r"here\[0\] is of the type str, and no CustomLogger"),
    ],
)
def test_a_list_of_a_program_is_looked_at_too(values: object, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        checked_callbacks(values, "here")


def test_callbacks_keep_their_order_and_stand_once() -> None:
    one, two, three = Quiet(), Quiet(), Quiet()

    assert collected([one, two], [two, three], [one]) == [one, two, three]


GATE = "async_should_run_agentic_loop"
CHAT_GATE = "async_should_run_chat_completion_agentic_loop"
BUILD = "async_build_agentic_loop_plan"
CHAT_BUILD = "async_build_chat_completion_agentic_loop_plan"
CHAT_RUN = "async_run_chat_completion_agentic_loop"


async def method(self: object, **arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ([], ["overrides nothing: it is never called"]),
        (
            ["async_should_run_loop"],
            ["has async_should_run_loop, which nobody calls here; did you"],
        ),
        ([GATE, BUILD], []),
        ([GATE, CHAT_BUILD], []),
        ([CHAT_GATE, CHAT_BUILD], []),
        ([GATE, "async_run_agentic_loop"], []),
        ([GATE], [f"overrides {GATE} and no builder: what it takes up is never answered"]),
        ([CHAT_GATE], [f"overrides {CHAT_GATE} and not {CHAT_BUILD}: what it takes up is never"]),
        ([BUILD], [f"overrides {BUILD} and not {GATE}: it is never called"]),
        ([CHAT_RUN], [f"overrides {CHAT_RUN} and no gate, as {GATE}: it is never called"]),
        ([CHAT_GATE, CHAT_BUILD, BUILD], [f"overrides {BUILD} and not {GATE}: it is never"]),
    ],
)
def test_what_never_happens_is_known(methods: list[str], said: list[str]) -> None:
    callback = type("Mine", (CustomLogger,), dict.fromkeys(methods, method))()

    found = silences(callback)

    assert len(found) == len(said)
    assert all(f"Mine {text}" in each for text, each in zip(said, found, strict=True))


def test_what_never_happens_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    callback = type("Mine", (CustomLogger,), {GATE: method})()

    with caplog.at_level(logging.WARNING, "loopmill.gateway"):
        checked_callbacks([callback], "App(callbacks=…)")

    [record] = caplog.records
    assert record.getMessage().startswith("! App(callbacks=…)[0]: Mine overrides")


def test_a_method_that_does_not_take_what_it_is_given_ends_the_start() -> None:
    async def narrow(self: object, response: Any) -> tuple[bool, dict[str, Any]]:
        return False, {}

    callback = type("Mine", (CustomLogger,), {GATE: narrow})()

    with pytest.raises(
        SetupError, match=rf"Mine\.{GATE} cannot be called with response, model, .*"
    ):
        checked_callbacks([callback], "App(callbacks=…)")
