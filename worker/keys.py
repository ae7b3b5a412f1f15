"""Every Redis name in one place: `<namespace>:<tenant>:…` for tenants, `<namespace>:@…` for all.

A tenant's name, a run's and a session's id have a grammar without `:`, `/` and `@`, so that no two
names can collide. Scripts derive a run's other keys from its first one, in the same way as here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The grammar of namespaces, tenants, ids, queues and idempotency scopes."""

ABORT = "arq:abort"
"""arq's own sorted set of job ids that somebody wants stopped."""

STAYS = re.compile(
    r"arq:queue:[^:]+:[^:]+(:batch)?(:claims|:tokens|:lapses)?"
    r"|arq:job:[^/]+/.+"
    r"|arq:abort"
    r"|[^:]+:@(workers:.+|queues|tenants|timers)"
    r"|[^:]+:[^:@]+:(runs|sessions|hooks)"
)
"""The written list: names of keys that may stand without a time to live.

Queues, claims and a job's payload live as long as the job; registries are pruned by upkeep.
"""


def stays(key: str) -> bool:
    """Say whether the key may stand without a time to live."""
    return STAYS.fullmatch(key) is not None


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The names of one run. `record` is the first; scripts make the others from it."""

    record: str

    @property
    def log(self) -> str:
        """The stream of the run's events, and the channel on which each append is published."""
        return f"{self.record}:log"

    @property
    def journal(self) -> str:
        """A hash of answered units, by key."""
        return f"{self.record}:journal"

    @property
    def calls(self) -> str:
        """The ledger of side effects: a hash of `<call>|<field>`."""
        return f"{self.record}:calls"

    @property
    def yields(self) -> str:
        """A list of the digests of the yields that stand in the log."""
        return f"{self.record}:yields"

    @property
    def handed(self) -> str:
        """A list of the answers from elsewhere, in the order of their hand-over to the loop."""
        return f"{self.record}:handed"

    @property
    def input(self) -> str:
        """The messages with which the run was made."""
        return f"{self.record}:input"

    @property
    def snapshot(self) -> str:
        """The fold of the events that were cut from the log."""
        return f"{self.record}:snapshot"

    @property
    def hooks(self) -> str:
        """A hash of what the run waits for besides calls: `<key>|<field>`; `@<label>` is a key."""
        return f"{self.record}:hooks"

    @property
    def steers(self) -> str:
        """A list of messages that were said to the run, and that it has not taken in."""
        return f"{self.record}:steers"


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The names of one session."""

    record: str

    @property
    def messages(self) -> str:
        """A list of the session's messages, append-only."""
        return f"{self.record}:messages"

    @property
    def markers(self) -> str:
        """A list of what stands for the session's older part, append-only; the newest counts."""
        return f"{self.record}:markers"

    @property
    def queue(self) -> str:
        """A list of the runs that wait for the session."""
        return f"{self.record}:queue"

    @property
    def runs(self) -> str:
        """A list of the session's runs, by ordinal."""
        return f"{self.record}:runs"


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """The names of one queue; the first two are arq's."""

    queue: str

    @property
    def claims(self) -> str:
        """A sorted set: job id → end of its lease, in ms."""
        return f"{self.queue}:claims"

    @property
    def tokens(self) -> str:
        """A hash: job id → token of its claim."""
        return f"{self.queue}:tokens"

    @property
    def lapses(self) -> str:
        """A hash: job id → how many of its claims lapsed and were taken over."""
        return f"{self.queue}:lapses"

    @property
    def wake(self) -> str:
        """A capped list of wake tokens, on which idle workers block."""
        return f"{self.queue}:wake"

    def unknown(self, job_id: str) -> str:
        """Return since when no worker knows the job's function, in ms; it expires by itself."""
        return f"{self.queue}:unknown:{job_id}"


@dataclass(frozen=True, slots=True)
class Keys:
    """All names of one namespace."""

    namespace: str

    def run(self, tenant: str, run_id: str) -> RunKeys:
        """Return the names of a run."""
        return RunKeys(f"{self.namespace}:{tenant}:run:{run_id}")

    def session(self, tenant: str, session_id: str) -> SessionKeys:
        """Return the names of a session."""
        return SessionKeys(f"{self.namespace}:{tenant}:session:{session_id}")

    def runs(self, tenant: str) -> str:
        """Return the index of a tenant's runs: id → created, in ms."""
        return f"{self.namespace}:{tenant}:runs"

    def sessions(self, tenant: str) -> str:
        """Return the index of a tenant's sessions: id → last used, in ms."""
        return f"{self.namespace}:{tenant}:sessions"

    def hooks(self, tenant: str) -> str:
        """Return the index of a tenant's open hooks: `<run id> <key>` → opened, in ms."""
        return f"{self.namespace}:{tenant}:hooks"

    def idempotency(self, tenant: str, digest: str) -> str:
        """Return where the answer to an idempotent request stands."""
        return f"{self.namespace}:{tenant}:idempotency:{digest}"

    def queue(self, name: str) -> QueueKeys:
        """Return the names of a queue."""
        return QueueKeys(f"arq:queue:{self.namespace}:{name}")

    @property
    def queues(self) -> str:
        """A set of every queue name that was ever enqueued to or served."""
        return f"{self.namespace}:@queues"

    @property
    def tenants(self) -> str:
        """A set of every tenant that ever had a run or a session."""
        return f"{self.namespace}:@tenants"

    @property
    def timers(self) -> str:
        """A sorted set: the record of a run that waits → when its next hook ends, in ms."""
        return f"{self.namespace}:@timers"

    def workers(self, queue: str) -> str:
        """Return the workers that serve a queue: worker id → when it counts as gone, in ms."""
        return f"{self.namespace}:@workers:{queue}"

    def worker(self, worker_id: str) -> str:
        """Return the record of a worker, which it refreshes while it lives."""
        return f"{self.namespace}:@worker:{worker_id}"

    def owner(self, worker_id: str) -> str:
        """Return the channel on which a worker hears of its jobs."""
        return f"{self.namespace}:@owner:{worker_id}"

    @property
    def providers(self) -> str:
        """A sorted set of every model that was asked of late: `[account, model]` by ms."""
        return f"{self.namespace}:@providers"

    def account(self, account: str) -> str:
        """Return a hash: until when nobody asks a provider with a key, and what led to it."""
        return f"{self.namespace}:@account:{account}"

    def window(self, account: str, model: str) -> str:
        """Return a hash: what was asked of a model in each second of the last minute."""
        return f"{self.namespace}:@window:{account}/{model}"

    def gate(self, tool: str) -> str:
        """Return a hash: the jobs that perform a tool of limited concurrency → queue and token.

        Those that wait for it stand in a sorted set of this name with `:line`.
        """
        return f"{self.namespace}:@gate:{tool}"

    def run_job(self, tenant: str, run_id: str) -> str:
        """Return the job id of a run."""
        return f"{self.namespace}/{tenant}/{run_id}"

    def call_job(self, tenant: str, run_id: str, call: str) -> str:
        """Return the job id of a tool call."""
        return f"{self.namespace}/{tenant}/{run_id}/{call}"
