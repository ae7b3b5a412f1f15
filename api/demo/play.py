"""The demo from curtain to curtain: start everything, follow one run, end everything."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from api.children import ChildError
from api.client import ApiError, Client
from loops.model import resolve_model
from worker.configuration import configured
from worker.settings import Settings

from .asked import VARIABLE
from .farm import APP, ASKED, Farm, open_farm
from .feed import Feed
from .report import read
from .samples import make_samples
from .screen import draw, draw_report
from .story import Story, tell
from .ticker import line_of

FRAME = timedelta(milliseconds=60)
"""How long a picture stands at least."""

ANY_HEIGHT = 1_000
"""What has gone by may be scrolled."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the demo ended."""

    run_id: str
    story: Story
    report: dict[str, Any] | str | None
    """As data where the model is scripted; a real one's words."""

    def as_json(self) -> str:
        """Return one line for programs."""
        return json.dumps(
            {
                "run_id": self.run_id,
                "status": self.story.status,
                "events": self.story.events,
                "tool_jobs": self.story.tool_jobs,
                "tool_worker_pids": self.story.pids,
                "attempts": self.story.attempt,
                "seconds": round(self.story.length.total_seconds(), 3),
                "report": self.report,
            },
            ensure_ascii=False,
        )


def play(console: Console, data: Path, path: Path | None, *, model: str | None = None) -> Outcome:
    """Triage the folder (or the sample logs) with real processes, and draw it as it happens.

    Without a model the answers are scripted.

    Raises:
        SetupError: When the model cannot be asked.
        ApiError: When the run cannot be started or followed.
        ChildError: When a process dies.
        ServerStartError: When the server does not start.
    """
    folder = (path or make_samples(data.absolute() / "sample-logs")).absolute()
    if model is not None:
        with configured(Settings.from_env(os.environ), os.environ):
            resolve_model(model)
    console.print(_opening(folder, model))
    with open_farm(data.absolute(), partial(_ready, console), model=model) as farm:
        with Client(farm.url) as client:
            run = client.start("triage", f"Triage the logs in {folder}")
            console.print()
            with _cancelled_on_the_way_out(client, run["id"]):
                story = _watch(console, client, farm, run["id"])
        console.print()
        report = read(story.text) if model is None else None
        if report is not None:
            console.print(draw_report(report))
            console.print(_check(report, folder), soft_wrap=True)
        elif model is not None:
            console.print(Markdown(story.text or str(story.error)))
        console.print(_closing(run["id"], _typed_before(farm, data, model), folder), soft_wrap=True)
    return Outcome(run["id"], story, report if model is None else story.text)


@contextmanager
def _cancelled_on_the_way_out(client: Client, run_id: str) -> Generator[None]:
    """Cancel a run that nobody waits for any more, so that the next start does not go on with it.

    When the API is what died, that start will.
    """
    try:
        yield
    except (KeyboardInterrupt, ChildError):
        with suppress(ApiError):
            client.cancel(run_id)
        raise


def _watch(console: Console, client: Client, farm: Farm, run_id: str) -> Story:
    """Follow the run, draw it as it goes on, and see that all processes live meanwhile."""
    story, feed = Story(), Feed(client.follow(run_id))
    title = f"run {run_id.removeprefix('run_')[:8]}"
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not feed.is_over:
            farm.children.check()
            for seen in feed.news(within=FRAME):
                story = tell(story, seen)
                # A file or a pipe gets a line for each thing instead of a picture that moves.
                line = None if console.is_terminal else line_of(story, seen)
                if line is not None:
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
            live.update(_picture(console, story, title, now=datetime.now(UTC)), refresh=True)
    console.print(_picture(console, story, title, now=None))
    return story


def _picture(console: Console, story: Story, title: str, *, now: datetime | None) -> Group:
    size = console.size
    height = ANY_HEIGHT if now is None else size.height
    return draw(story, title=title, now=now, width=size.width, height=height)


def _ready(console: Console, line: str) -> None:
    console.print(Text.assemble(("  ✓ ", "green"), line))


def _opening(folder: Path, model: str | None) -> Text:
    about = "is scripted; all else is real" if model is None else f"is {model}; all is real"
    return Text.assemble(
        ("Loopmill demo: ", "bold"),
        f"one agent triages the logs in {_near(folder)}.\n"
        f"Its model {about}: processes, queue, log, HTTP.\n",
    )


def _check(report: dict[str, Any], folder: Path) -> Text:
    """Return a command that counts a group without us: the one that is shortest to read."""
    if not report["groups"]:
        return Text()
    group = min(report["groups"][:5], key=lambda each: len(each["expression"]))
    expression, place = shlex.quote(group["expression"]), shlex.quote(_near(folder))
    return Text.assemble(
        ("\nCount one yourself: ", "bold"),
        f"this prints {group['count']}\n",
        f"  LC_ALL=C grep -rIhE {expression} {place} | wc -l",
    )


def _near(folder: Path) -> str:
    """Return the folder as one types it from here."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _typed_before(farm: Farm, data: Path, model: str | None) -> str:
    """Return the variables with which the same agent is served on the same data."""
    is_usual = farm.data == data.absolute() and "LOOPMILL_DATA" not in os.environ
    where = "" if is_usual else f"LOOPMILL_DATA={shlex.quote(_near(farm.data))} "
    if model is not None:
        return f"{where}LOOPMILL_APP={ASKED} {VARIABLE}={shlex.quote(model)} "
    return where + (f"LOOPMILL_APP={APP} " if os.environ.get("LOOPMILL_APP") else "")


def _closing(run_id: str, where: str, folder: Path) -> Text:
    runs = "127.0.0.1:8000/v1/runs"
    body = json.dumps({"agent": "triage", "input": f"Triage the logs in {_near(folder)}"})
    return Text.assemble(
        ("\nNext: ", "bold"),
        "start it again, and type the curls in a second terminal\n",
        f"  {where}{typed('dev')}\n",
        f"  curl {runs}/{run_id}\n",
        f"  curl -N '{runs}/{run_id}/events?stream=true'\n",
        f"  curl {runs} -H 'content-type: application/json' -d '{body}'",
    )


def typed(command: str) -> str:
    """Return how one types a command here, also when no environment is active."""
    if shutil.which("loopmill") is not None:
        return f"loopmill {command}"
    script = Path(sys.executable).parent / "loopmill"
    return f"{shlex.quote(_near(script))} {command}"
