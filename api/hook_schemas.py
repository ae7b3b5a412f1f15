"""What is told of hooks over the border."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

from pydantic import ConfigDict

from worker.hooks import HookRecord

from .schemas import View


class HookView(View):
    """A hook, as it stands."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    run_id: str
    label: str
    id: str
    """The hook's key in its run: labels may come again."""
    status: str
    payload: dict[str, Any]
    """The JSON schema of the answer."""
    metadata: dict[str, Any] | None
    call: str | None
    expires_at: datetime
    link: str
    """Where the answer is posted."""

    @classmethod
    def of(cls, record: HookRecord) -> Self:
        """Return what everybody may see of the record."""
        link = f"/v1/runs/{record.run_id}/hooks/{quote(record.label, safe='')}"
        return cls(**record.model_dump(exclude={"hides"}), link=link)


class HookList(View):
    """A page of open hooks, the oldest first."""

    hooks: list[HookView]
    next: str | None
    """The `after` of the next page, null at the end."""


class HookClosed(View):
    """The receipt of a hook's answer."""

    run_id: str
    label: str
    id: str
    status: str
