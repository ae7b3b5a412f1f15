"""A whole app: one agent with a loop of its own and one tool.

Start it with `LOOPMILL_APP=hello:app loopmill dev` in this folder, then, in another terminal,
`loopmill run count "how long is this?"`.
"""

from collections.abc import AsyncGenerator

import loops as ai


@ai.tool(read_only=True)
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def count(context: ai.Context) -> AsyncGenerator[str]:
    """Answer with the number of words in the question."""
    question = context.messages[-1].text
    yield f"{count_words(question)} words"


app = ai.App({"count": count})
