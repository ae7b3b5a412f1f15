"""The queues beside which ours is measured: versions, settings, and what each promises.

Each runs in an environment of its own, with the settings that its documentation advises for many
short jobs; results of drained jobs are not kept where a queue has a switch for that, as tool jobs
of Loopmill keep none. Where a client polls for results, it polls often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DRIVERS = "bench.drivers"
UVLOOP = "uvloop==0.23.0"
HIREDIS = "hiredis==3.5.0"
REDIS = "redis==8.1.0"


@dataclass(frozen=True)
class Peer:
    """One queue, as it is measured."""

    name: str
    environment: str
    packages: tuple[str, ...]
    """By name and version; the first is the queue."""
    driver: str
    settings: str
    promise: str
    """What becomes of a job whose worker dies."""
    worker: tuple[str, ...] = ()
    """The program of its environment that works, and its arguments; else the driver does."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    calls: int = 200
    """How many calls are timed in a round."""
    fans: int = 10

    @property
    def version(self) -> str:
        return self.packages[0].rpartition("==")[2]

    @property
    def module(self) -> str:
        return f"{DRIVERS}.{self.driver}"


ARQ = ("arq==0.28.0", "redis==5.3.1", HIREDIS, UVLOOP)
TASKIQ = ("taskiq-redis==1.2.4", "taskiq==0.13.0", REDIS, HIREDIS, UVLOOP)
TASKIQ_WORKER = (
    *("taskiq", "worker", "bench.drivers.taskiq_peer:broker", "--workers", "1"),
    *("--max-async-tasks", "100", "--log-level", "WARNING"),
)
ARQ_PROMISE = "at least once; begun again after the longest job timeout + 10 s (310 s)"

PEERS = (
    Peer(
        name="arq",
        environment="arq",
        packages=ARQ,
        driver="arq_stock",
        settings="max_jobs 100, poll_delay 0.5 (default), uvloop",
        promise=ARQ_PROMISE,
        calls=12,
        fans=3,
    ),
    Peer(
        name="arq, polling",
        environment="arq",
        packages=ARQ,
        driver="arq_stock",
        settings="max_jobs 100, poll_delay 0.01 in worker and client, uvloop",
        promise=ARQ_PROMISE,
        options={"BENCH_POLL": "0.01"},
    ),
    Peer(
        name="SAQ",
        environment="saq",
        packages=("saq==0.26.4", "redis==7.4.1", HIREDIS, "typing-extensions==4.16.0", UVLOOP),
        driver="saq_peer",
        settings="concurrency 100, published results (a missed one costs 1 s), uvloop",
        promise="at most once by default (retries 1); a stuck job is swept after its timeout",
    ),
    Peer(
        name="streaq",
        environment="streaq",
        packages=("streaq==7.2.0", "coredis==6.9.0", UVLOOP),
        driver="streaq_peer",
        settings="concurrency 100, max_connections 400, uvloop",
        promise="at least once; begun again after 60 s without a sign of life",
    ),
    Peer(
        name="taskiq list",
        environment="taskiq",
        packages=TASKIQ,
        driver="taskiq_peer",
        settings="ListQueueBroker, 1 worker, 100 tasks, check_interval 0.005, uvloop",
        promise="at most once: what was popped is gone with its worker",
        worker=TASKIQ_WORKER,
        options={"BENCH_KIND": "list"},
    ),
    Peer(
        name="taskiq stream",
        environment="taskiq",
        packages=TASKIQ,
        driver="taskiq_peer",
        settings="RedisStreamBroker, 1 worker, 100 tasks, check_interval 0.005, uvloop",
        promise="at least once; begun again after 10 min without an answer",
        worker=TASKIQ_WORKER,
        options={"BENCH_KIND": "stream"},
    ),
    Peer(
        name="docket",
        environment="docket",
        packages=("pydocket==0.27.0", REDIS, HIREDIS, UVLOOP),
        driver="docket_peer",
        settings="concurrency 100, max_connections 2000, uvloop",
        promise="at least once; begun again after 5 min without a renewal",
    ),
    Peer(
        name="dramatiq",
        environment="dramatiq",
        packages=("dramatiq[redis]==2.2.1", REDIS, HIREDIS),
        driver="dramatiq_peer",
        settings="1 process, 100 threads, results only where they are awaited",
        promise="at least once; begun again after 60 s without a heartbeat",
        worker=("dramatiq", "bench.drivers.dramatiq_peer", "-p", "1", "-t", "100"),
    ),
    Peer(
        name="celery",
        environment="celery",
        packages=("celery[redis]==5.7.0", REDIS, HIREDIS),
        driver="celery_peer",
        settings="100 threads, prefetch multiplier 4 (default), no gossip, no mingle",
        promise="at most once by default (early acknowledgement)",
        worker=(
            *("celery", "-A", "bench.drivers.celery_peer", "worker", "-P", "threads", "-c", "100"),
            *("-l", "WARNING", "--without-gossip", "--without-mingle"),
        ),
    ),
    Peer(
        name="rq",
        environment="rq",
        packages=("rq==3.0.0", REDIS, HIREDIS),
        driver="rq_peer",
        settings="SimpleWorker: one job at a time",
        promise="at most once by default: a lost job is marked as failed",
        worker=("rq", "worker", "default", "-q", "-w", "rq.SimpleWorker", "-u", "{url}"),
        calls=60,
        fans=4,
    ),
)

OURS = Peer(
    name="Loopmill",
    environment="",
    packages=("loopmill==0.1.0",),
    driver="loopmill",
    settings="100 slots, lease 10 s, fencing, renewals, uvloop: as shipped",
    promise="at least once; begun again within 15 s, whatever its timeout and the backlog",
)
