"""The sections of the configuration file that are about the gateway and its callbacks."""

import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from loops.errors import SetupError
from loops.gateway.compression import Compression
from loops.gateway.rounds import Mode
from loops.gateway.settings import GatewaySettings
from loops.gateway.web_search import WebSearch
from worker.configuration import ConfigurationError, read_configuration
from worker.settings import SettingsError

MODULE = """
from loops.gateway.custom_logger import CustomLogger

class Mine(CustomLogger):
    pass

class Half(CustomLogger):
    async def async_should_run_agentic_loop(self, **arguments):
        return False, {}

async def search(query):
    return query

def rule(text):
    return True

one, two, half = Mine(), Mine(), Half()
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A configuration with a module `mine` beside it, which is forgotten afterwards."""
    (tmp_path / "mine.py").write_text(MODULE)
    yield tmp_path / "config.yaml"
    sys.modules.pop("mine", None)


def gateway(file: Path, text: str) -> GatewaySettings:
    file.write_text(text)
    return read_configuration(file).gateway(file)


@pytest.mark.parametrize("text", ["", "litellm_settings:", "litellm_settings: {drop_params: true}"])
def test_a_file_that_says_nothing_leaves_everything_as_it_is(file: Path, text: str) -> None:
    assert gateway(file, text) == GatewaySettings()


def test_without_a_file_everything_is_as_it_is(file: Path) -> None:
    file.write_text("")

    assert read_configuration(file).gateway(None) == GatewaySettings()


def test_the_gateways_section_is_read(file: Path) -> None:
    told = gateway(
        file, "gateway: {streaming: hold, callback_timeout: 90, ping: 5s, wait: 1m, "
        "post_call_rules: mine.rule}",
    )  # fmt: skip

    assert told.streaming is Mode.HOLD
    assert (told.callback_timeout, told.wait) == (timedelta(seconds=90), timedelta(minutes=1))
    assert told.ping == timedelta(seconds=5)
    assert told.post_call_rules == (sys.modules["mine"].rule,)


def test_callbacks_of_both_sections_are_found_in_order_and_once(file: Path) -> None:
    told = gateway(
        file,
        "callbacks: [mine.two, mine.one]\n"
        "litellm_settings: {callbacks: mine.two, post_call_rules: [mine.rule]}",
    )

    mine = sys.modules["mine"]
    assert told.callbacks == (mine.two, mine.one)
    assert told.post_call_rules == (mine.rule,)


@pytest.mark.parametrize("name", ["compression", "compression_interception"])
def test_a_shipped_callback_has_two_names_and_two_places(file: Path, name: str) -> None:
    ours = f"callback_settings: {{{name}: {{longest: 7}}}}"
    theirs = "litellm_settings: {compression_interception_params: {compression_trigger: 5}}"

    for section in (ours, theirs):
        told = gateway(file, f"callbacks: [compression, compression_interception]\n{section}")

        [callback] = told.callbacks
        assert isinstance(callback, Compression)


def test_the_web_is_searched_by_a_function_beside_the_file(file: Path) -> None:
    told = gateway(
        file,
        "callbacks: [web_search]\n"
        "callback_settings: {web_search: {search: mine.search, tool_name: look, "
        'enabled_providers: [groq], max_agentic_loops: "5"}}',
    )

    [callback] = told.callbacks
    assert isinstance(callback, WebSearch)
    assert callback.server_fulfilled_tool_names == {"look"}


def test_a_shipped_callback_can_be_switched_off(file: Path) -> None:
    text = "callbacks: [compression, web_search, mine.one]\ncallback_settings:\n"
    told = gateway(
        file, f"{text}  compression: {{enabled: false}}\n  web_search: {{enabled: false}}"
    )

    assert told.callbacks == (sys.modules["mine"].one,)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("litellm_settings: {anthropic_sse_ping_interval_seconds: 3}", 3),
        ("litellm_settings: {anthropic_sse_ping_interval_seconds: 60.0}", 15),
        ("litellm_settings: {anthropic_sse_ping_interval_seconds: 3}\ngateway: {ping: 8}", 8),
        ("gateway: {wait: 1s}", 10),
    ],
)
def test_a_caller_hears_of_a_stream_in_time(file: Path, section: str, expected: int) -> None:
    assert gateway(file, section).ping == timedelta(seconds=expected)


def test_what_of_a_callback_never_happens_stands_in_the_log(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "loopmill.gateway"):
        gateway(file, "callbacks: [mine.half]")

    [record] = caplog.records
    assert "callbacks entry 'mine.half': Half overrides" in record.getMessage()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("callbacks: [mine.one, mine.Mine]", "callbacks entry 'mine.Mine' is the class Mine; name"),
        ("litellm_settings: {callbacks: mine.on}", "litellm_settings.callbacks entry 'mine.on'"),
        ("callbacks: [{a: b}]", "callbacks entry 0 is of the type dict; write module.name"),
        ("callbacks:", "callbacks entry 0 is of the type NoneType"),
        ("callbacks: web_search", "callback_settings.web_search.search names no function; write"),
        ("gateway: {post_call_rules: [mine.one]}", "gateway.post_call_rules entry 'mine.one' is"),
    ],
)
def test_an_entry_that_is_none_ends_the_start(file: Path, text: str, said: str) -> None:
    with pytest.raises(SetupError) as refused:
        gateway(file, text)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("mine.Mine", "is the class Mine; name a function that takes a query"),
        ("mine.__doc__", "is of the type NoneType; name a function"),
        ("mine.serch", "did you mean 'search'?"),
    ],
)
def test_a_search_that_is_no_function_ends_the_start(file: Path, search: str, said: str) -> None:
    with pytest.raises(SetupError) as refused:
        gateway(
            file, f"callbacks: web_search\ncallback_settings: {{web_search: {{search: {search}}}}}"
        )

    assert f"callback_settings.web_search.search {search!r}" in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway: {streaming: live}", "gateway.streaming: input should be 'compatible', 'merged'"),
        ("gateway: {ping: 16}", "gateway.ping: callers give a stream up that is silent; write 15s"),
        ("gateway: {ping: 0}", "gateway.ping: write a duration that is longer than nothing"),
        ("gateway: {wait: soon}", "gateway.wait: write a duration"),
        ("gateway: {strming: hold}", "gateway.strming is nothing that is read"),
        ("callback_settings: {web_serch: {}}", "callback_settings.web_serch is nothing that"),
        ("callback_settings: {compression: {longest: true}}", "longest: input should be a valid"),
        ("callback_settings: {compression: {trigger: -1}}", "trigger: input should be greater"),
        (
            "litellm_settings: {websearch_interception_params: {max_agentic_loops: 0}}",
            "websearch_interception_params.max_agentic_loops: max_agentic_loops must be at least 1",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_said_with_its_place(
    file: Path, text: str, said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        gateway(file, text)

    assert said in str(refused.value)


@pytest.mark.parametrize("section", ["params", "litellm_params"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "must be at least 1, got 0"),
        ("-1", "must be at least 1, got -1"),
        ('"0"', "must be at least 1, got 0"),
        ("three", "must be an integer, got 'three'"),
        ("true", "must be an integer, got True"),
        ("2.5", "must be an integer, got 2.5"),
        (".inf", "must be an integer, got inf"),
    ],
)
def test_a_limit_that_is_none_is_refused_by_its_models_name(
    file: Path, section: str, value: str, said: str
) -> None:
    told = f"{{model: a/b, max_agentic_loops: {value}}}"
    file.write_text(f"model_list: [{{model_name: plain, {section}: {told}}}]")

    with pytest.raises(SettingsError) as refused:
        read_configuration(file)

    assert f"{section}.max_agentic_loops on model 'plain' {said}" in str(refused.value)


@pytest.mark.parametrize(("value", "expected"), [("5", 5), ("5.0", 5), ('" 5 "', 5), ("~", None)])
def test_a_limit_that_is_whole_is_carried_to_the_deployment(
    file: Path, value: str, expected: int | None
) -> None:
    told = f"{{model: vllm/b, max_agentic_loops: {value}}}"
    file.write_text(f"model_list: [{{model_name: plain, litellm_params: {told}}}]")

    [entry] = read_configuration(file).model_list

    assert entry.port({}).deployment.max_agentic_loops == expected


def test_all_faults_are_known_and_what_is_fit_can_still_be_looked_at(file: Path) -> None:
    model = "{model_name: x, params: {model: gpt, rpm: -1}}"
    file.write_text(f"model_list: [{model}]\ngateway: {{ping: 99}}\ncallbacks: mine.one")

    with pytest.raises(ConfigurationError, match="names 2 more") as refused:
        read_configuration(file)

    assert len(refused.value.faults) == 3
    assert refused.value.rest.callbacks == "mine.one"
