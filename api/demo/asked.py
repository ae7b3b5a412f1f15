"""The demo's agent over a real model: what the scripted one does is here told in words.

LOOPMILL_APP=api.demo.asked:app LOOPMILL_DEMO_MODEL=anthropic/…
"""

from __future__ import annotations

import os

import loops as ai

from .triage import inspect_log, list_files, scan_log

VARIABLE = "LOOPMILL_DEMO_MODEL"
"""Names the model in the environment of the demo's processes."""

SYSTEM = """You triage the errors in a folder of log files, with tools, and write one report.

First list the files. Then scan every file that was listed: one call each, all of them in one \
message, since they are read at the same time. A scan gives kinds of errors, each with a regular \
expression, a count, the first and the last time, and an example line. Then look again, with \
inspect_log and the expressions of the largest kinds, at the three files with the most errors.

Then write the report in Markdown: kinds of errors in all files together, those with the most \
lines first, twelve at most. For each: what it means in a few words, the count over all files, \
the regular expression, the first and last time, the files, one example line. Close with what you \
would look into first. Every number comes from the tools; where a file could not be read, say so."""

app = ai.App(
    {
        "triage": ai.Agent(
            model=os.environ.get(VARIABLE),
            system=SYSTEM,
            tools=[list_files, scan_log, inspect_log],
        )
    }
)
