"""How much a model may think, in the words of each vendor, as they go out."""

import logging
from typing import Any

import pytest

from loops.errors import InvalidRequest
from loops.messages import Messages
from loops.model import ModelRequest, ask
from loops.providers import anthropic_request, openai_request
from loops.providers.openai import OpenAIModel
from loops.providers.vendors import VENDORS, Dialect, Vendor
from tests.loops.providers import openai_wires as wires
from tests.loops.providers.service import Answer, serving

WORDS = ("thinking", "reasoning", "reasoning_effort", "enable_thinking", "thinking_budget")


def request(model: str = "m", max_tokens: int | None = None, **params: Any) -> ModelRequest:
    messages = tuple(Messages.of("hi"))
    return ModelRequest(model=model, messages=messages, max_tokens=max_tokens, params=params)


def told(vendor: str, **params: Any) -> dict[str, Any]:
    """Return what a request tells a vendor of OpenAI's protocol about thinking."""
    body = openai_request.to_wire(request(**params), VENDORS.get(vendor, Vendor()).dialect)
    return {name: value for name, value in body.items() if name in WORDS}


EFFORTS = ["openai", "azure", "google", "gemini", "xai", "grok", "mistral", "mistralai", "groq",
           "perplexity"]  # fmt: skip
ON, OFF = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("vendors", "wish", "said"),
    [
        (EFFORTS, "low", {"reasoning_effort": "low"}),
        (EFFORTS, 9_000, {"reasoning_effort": "medium"}),
        (EFFORTS, 99_000, {"reasoning_effort": "high"}),
        (EFFORTS, "adaptive", {}),
        (EFFORTS, None, {}),
        (["zai", "zhipu", "zhipuai", "glm"], "high", ON),
        (["zai", "zhipu", "zhipuai", "glm"], "adaptive", ON),
        (["zai", "zhipu", "zhipuai", "glm"], 2_000, ON),
        (["zai", "zhipu", "zhipuai", "glm"], None, OFF),
        (["deepseek"], "high", ON | {"reasoning_effort": "high"}),
        (["deepseek"], "adaptive", ON),
        (["deepseek"], None, OFF),
        (["qwen", "dashscope", "alibaba"], "low",
         {"enable_thinking": True, "thinking_budget": 4_096}),
        (["qwen", "dashscope", "alibaba"], "medium",
         {"enable_thinking": True, "thinking_budget": 16_384}),
        (["qwen", "dashscope", "alibaba"], "high",
         {"enable_thinking": True, "thinking_budget": 32_768}),
        (["qwen", "dashscope", "alibaba"], 5_000,
         {"enable_thinking": True, "thinking_budget": 5_000}),
        (["qwen", "dashscope", "alibaba"], "adaptive", {"enable_thinking": True}),
        (["qwen", "dashscope", "alibaba"], None, {"enable_thinking": False}),
        (["kimi", "moonshot", "moonshotai"], "low", {"reasoning_effort": "low"}),
        (["kimi", "moonshot", "moonshotai"], "medium", {"reasoning_effort": "high"}),
        (["kimi", "moonshot", "moonshotai"], "high", {"reasoning_effort": "max"}),
        (["kimi", "moonshot", "moonshotai"], None, {}),
        (["openrouter"], "medium", {"reasoning": {"effort": "medium"}}),
        (["openrouter"], 5_000, {"reasoning": {"max_tokens": 5_000}}),
        (["openrouter"], "adaptive", {"reasoning": {"enabled": True}}),
        (["openrouter"], None, {}),
        (["somebody"], "high", {}),
        (["somebody"], None, {}),
    ],
)  # fmt: skip
def test_each_vendor_is_told_in_its_own_words(vendors: list[str], wish: Any, said: Any) -> None:
    assert [told(vendor, thinking=wish) for vendor in vendors] == [said] * len(vendors)


@pytest.mark.parametrize("vendor", ["openai", "zai", "qwen", "openrouter", "somebody"])
def test_who_says_nothing_says_nothing(vendor: str) -> None:
    assert told(vendor) == {}


@pytest.mark.parametrize("vendor", ["openai", "zai", "somebody"])
def test_the_vendors_own_words_go_through(vendor: str) -> None:
    own = {"type": "enabled", "clear_thinking": False}

    assert told(vendor, thinking=own) == {"thinking": own}
    assert told(vendor, reasoning_effort="minimal") == {"reasoning_effort": "minimal"}
    assert told("openai", thinking="low", reasoning_effort="xhigh") == {"reasoning_effort": "xhigh"}


def claude(model: str, **params: Any) -> dict[str, Any]:
    body = anthropic_request.to_wire(request(model, **params))
    names = ("thinking", "output_config", "max_tokens")
    return {name: body[name] for name in names if name in body}


def budget(tokens: int, limit: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}, "max_tokens": limit}


def adaptive(effort: str | None = None) -> dict[str, Any]:
    output = {"output_config": {"effort": effort}} if effort else {}
    return {"thinking": {"type": "adaptive"}, "max_tokens": 16_384, **output}


@pytest.mark.parametrize(
    ("model", "wish", "said"),
    [
        ("claude-opus-4-6", "adaptive", adaptive()),
        ("claude-opus-4-6", "low", adaptive("low")),
        ("claude-sonnet-4-6", 8_000, budget(8_000, 24_384)),
        ("claude-opus-4-8", 8_000, adaptive("medium")),
        ("claude-opus-4-7", "high", adaptive("high")),
        ("claude-haiku-5-5", "medium", adaptive("medium")),
        ("claude-fable-5", "adaptive", adaptive()),
        ("claude-mythos-preview", "high", adaptive("high")),
        ("claude-mythos-preview", 8_000, budget(8_000, 24_384)),
        ("us.anthropic.claude-opus-4-6-v1:0", "low", adaptive("low")),
        ("claude-opus-4.6", "low", adaptive("low")),
        ("claude-haiku-4-5-20251001", "adaptive", budget(8_192, 24_576)),
        ("claude-sonnet-4-5", "low", budget(4_096, 20_480)),
        ("claude-opus-4-5-20251101", "high", budget(15_000, 31_384)),
        ("claude-sonnet-4-20250514", "medium", budget(8_192, 24_576)),
        ("claude-3-7-sonnet-20250219", "adaptive", budget(8_192, 24_576)),
        ("claude-3-7-sonnet-20250219", 200, budget(1_024, 17_408)),
        ("MiniMax-M2", "low", budget(4_096, 20_480)),
        ("claude-opus-4-6", None, {"max_tokens": 16_384}),
        ("claude-haiku-4-5", False, {"max_tokens": 16_384}),
        ("claude-opus-5", None, {"max_tokens": 16_384, "thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", None, {"max_tokens": 16_384}),
        ("claude-opus-5", "low", adaptive("low")),
    ],
)
def test_each_model_of_anthropic_is_told_as_it_takes_it(model: str, wish: Any, said: Any) -> None:
    assert claude(model, thinking=wish) == said


def test_an_object_goes_to_anthropic_as_it_is() -> None:
    own = {"type": "adaptive", "display": "summarized"}

    assert claude("claude-haiku-4-5", thinking=own) == {"thinking": own, "max_tokens": 16_384}


@pytest.mark.parametrize(
    ("limit", "sent"), [(20_000, 20_000), (8_000, 16_000), (1_000, 9_000), (None, 24_384)]
)
def test_what_is_thought_leaves_room_for_an_answer(limit: int | None, sent: int) -> None:
    by_field = anthropic_request.to_wire(request("claude-sonnet-4-5", limit, thinking=8_000))
    params = {} if limit is None else {"max_tokens": limit}

    assert by_field["max_tokens"] == sent
    assert claude("claude-sonnet-4-5", thinking=8_000, **params)["max_tokens"] == sent


@pytest.mark.parametrize("wish", ["much", "", -1, 0.5, [], ("low",)])
def test_what_no_vendor_understands_is_refused_and_named(wish: Any) -> None:
    for to_wire in (
        anthropic_request.to_wire,
        lambda asked: openai_request.to_wire(asked, Dialect()),
    ):
        with pytest.raises(InvalidRequest, match="'adaptive', 'low', 'medium', 'high'") as caught:
            to_wire(request(thinking=wish))
        assert repr(wish) in str(caught.value)


async def test_a_vendor_that_is_not_known_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    whole = Answer([wires.reply(wires.said("a"))])
    async with serving(whole) as service:
        for wish in ("low", "high", None):
            model = OpenAIModel("m", vendor="unheard-of", base_url=service.url, api_key="k")
            with caplog.at_level(logging.WARNING):
                [event async for event in ask(model, request(thinking=wish))]

    assert [each.getMessage().count("'unheard-of'") for each in caplog.records] == [1]
    assert not any(name in asked.body for asked in service.asked for name in WORDS)


@pytest.mark.parametrize("wish", [None, {"type": "enabled"}])
async def test_nobody_is_named_where_nothing_is_left_out(
    wish: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Answer([wires.reply(wires.said("a"))])) as service:
        model = OpenAIModel("m", vendor="unheard-of-too", base_url=service.url, api_key="k")
        [event async for event in ask(model, request(thinking=wish))]

    assert caplog.records == []
