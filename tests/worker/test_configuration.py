"""The configuration file: what it may say, and what it makes of a model."""

from pathlib import Path

import pytest

from loops.errors import SetupError
from loops.messages import Messages
from loops.model import Limits, ModelPort, ModelRequest, register_provider, resolve_model
from loops.providers.deployment import DeployedModel
from loops.reply import StreamEnd
from tests.loops.providers import anthropic_wires as a
from tests.loops.providers.service import Answer, serving
from tests.worker.workshop import settings
from worker.configuration import configured, read_configuration
from worker.settings import SettingsError

WHOLE = """
model_list:
  - model_name: fast
    params:
      model: anthropic/claude-x
      api_base: {url}
      api_key: env/OUR_KEY
      max_tokens: 77
      timeout: 90
      rpm: 60
      tpm: 40000
      price: {{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}
      max_agentic_loops: 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def write(file: Path, url: str = "http://127.0.0.1:9") -> None:
    file.write_text(WHOLE.format(url=url))


async def test_a_configured_model_is_asked_as_the_file_says(file: Path) -> None:
    reply = a.reply(a.said(0, "hi"))
    async with serving(Answer([reply])) as service:
        write(file, service.url)
        with configured(settings(config=file), {"OUR_KEY": "sk-canary"}):
            port = resolve_model("fast")
        events = [
            event async for event in port.stream(ModelRequest("fast", tuple(Messages.of("hi"))))
        ]

    [asked] = service.asked
    assert (asked.headers["x-api-key"], asked.body["max_tokens"]) == ("sk-canary", 77)
    assert asked.body["model"] == "claude-x"
    assert isinstance(port, DeployedModel)
    assert (port.name, port.limits) == ("anthropic/claude-x", Limits(60, 40_000))
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert end.usage is not None
    assert end.usage.cost == pytest.approx((10 * 3 + 20 * 15) / 1_000_000)


def test_a_model_is_known_by_its_name_only_while_it_is_configured(file: Path) -> None:
    write(file)

    with configured(settings(config=file), {"OUR_KEY": "k"}):
        resolve_model("fast")

    with pytest.raises(SetupError, match="'vendor/model'"):
        resolve_model("fast")


def test_a_configured_name_goes_before_a_vendors(file: Path) -> None:
    file.write_text(
        "model_list: [{model_name: openai/gpt-x, "
        "litellm_params: {model: ollama/llama, api_key: os.environ/MINE}}]"
    )

    with configured(settings(config=file), {"MINE": "k"}):
        port = resolve_model("openai/gpt-x")

    assert port.name == "ollama/llama"


def test_a_key_that_is_not_set_is_named_and_not_shown(file: Path) -> None:
    write(file)

    with (
        configured(settings(config=file), {}) as configuration,
        pytest.raises(SetupError, match=r"model 'fast': its key is 'env/OUR_KEY'.*set OUR_KEY"),
    ):
        configuration.check({})


@pytest.mark.parametrize(("key", "mend"), [("env/", "env/OUR_KEY"), ("env/NO", "set NO")])
def test_a_variable_that_is_not_there_is_said_with_the_mend(
    file: Path, key: str, mend: str
) -> None:
    file.write_text(f"model_list: [{{model_name: x, params: {{model: groq/b, api_key: {key}}}}}]")

    with pytest.raises(SetupError, match=f"model 'x': its key is '{key}'.*{mend}"):
        read_configuration(file).check({})


def test_what_a_provider_of_ones_own_raises_shows_no_key(file: Path) -> None:
    def factory(name: str, *, api_key: str) -> ModelPort:
        raise LookupError(f"{name} cannot be had with {api_key}")

    register_provider("own", factory)
    file.write_text("model_list: [{model_name: x, params: {model: own/b, api_key: sk-canary}}]")

    with pytest.raises(SetupError, match="model 'x': LookupError") as refused:
        read_configuration(file).check({})

    assert "canary" not in str(refused.value)


def test_remarks_of_other_programs_are_passed_over(file: Path) -> None:
    entry = "{model_name: x, litellm_params: {model: vllm/b}, model_info: {mode: chat}}"
    file.write_text(f"model_list: [{entry}]")

    [read] = read_configuration(file).model_list

    assert read.port({}).name == "vllm/b"


def test_sections_of_other_programs_are_passed_over(file: Path) -> None:
    file.write_text("litellm_settings: {drop_params: true}\ngeneral_settings: {master_key: x}")

    assert read_configuration(file).model_list == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "holds no sections"),
        ("model_list: {", "cannot be read as YAML at line 1"),
        ("model_list: []\nmodel_list: []", "at line 1: 'model_list' stands twice; remove one"),
        ("model_list: [{model_name: x, params: {model: a/b, api_key: 2020-13-45}}]", "as YAML"),
        ("[" * 5000, "cannot be read as YAML"),
        ("1: 2", r"yaml: \[1\]: keys should be strings"),
        ("model_list:", "model_list: input should be a valid list"),
        (
            "model_list: [{model_name: x, params: {model: a/b, timeout: 99999999999999d}}]",
            "less than a hundred years",
        ),
        (
            "model_list: [{model_name: x, params: {model: a/b, rpm: true}}]",
            "rpm: input should be a valid integer",
        ),
        (
            "model_list: [{model_name: x, params: {model: a/b, price: {input: .inf}}}]",
            "price.input: input should be a finite number",
        ),
        ("modell_list: []", "modell_list is nothing that is read"),
        ("model_list: [{model_name: x}]", r"model_list\[0\].params: field required"),
        ("model_list: [{model_name: x, params: {model: gpt}}]", "named 'vendor/model'.*not 'gpt'"),
        (
            "model_list: [{model_name: x, params: {model: a/b, api_bse: u}}]",
            r"model_list\[0\].params.api_bse is nothing that is read",
        ),
        (
            "model_list: [{model_name: x, params: {model: a/b, rpm: -1}}]",
            "rpm: input should be greater than 0",
        ),
        (
            "model_list: [{model_name: x, params: {model: a/b, timeout: soon}}]",
            "timeout: write a duration",
        ),
        (
            "model_list: [&x {model_name: x, params: {model: a/b}}, *x]",
            "two models named 'x'; rename one",
        ),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(file: Path, text: str, said: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingsError, match=said) as refused:
        read_configuration(file)

    assert str(file) in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "model_list: [{model_name: x, params: {model: a/b, api_key: sk-canary, rpm: sk-canary}}]",
        "model_list:\n  - api_key: 'sk-canary\n  - }",
        "model_list: [{model_name: x, params: {model: a/b, api_key: [sk-canary]}}]",
        "model_list: [{model_name: x, params: {model: a/b, api_key: *sk-canary}}]",
        "model_list: [{model_name: x, params: {model: a/b, api_key: !sk-canary }}]",
    ],
)
def test_no_error_shows_a_key(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingsError) as refused:
        read_configuration(file)

    assert "sk-canary" not in str(refused.value)
    assert "sk-canary" not in repr(refused.value)


def test_a_configuration_shows_no_key(file: Path) -> None:
    file.write_text("model_list: [{model_name: x, params: {model: a/b, api_key: sk-canary}}]")

    configuration = read_configuration(file)

    assert "sk-canary" not in f"{configuration!r} {configuration.model_dump()!r}"


def test_a_vendor_that_takes_no_address_says_so(file: Path) -> None:
    file.write_text(
        "model_list: [{model_name: x, params: {model: nobody/x, api_base: 'http://127.0.0.1:9'}}]"
    )

    with (
        configured(settings(config=file), {}) as configuration,
        pytest.raises(SetupError, match="the configured model 'x': no provider is registered"),
    ):
        configuration.check({})
