"""Agents whose models are asked over real wires; what they do is what the scripted ones do."""

import loops as ai
from tests.kills.scripts import TOOLS

app = ai.App(
    agents={
        "anthropic": ai.Agent(model="anthropic/kills", tools=TOOLS),
        "openai": ai.Agent(model="openai/kills", tools=TOOLS),
    }
)
