"""One entry of each kind of log, drawn from a random source: pure functions of it.

Each takes the random source, the moment and whether the outage is on.
"""

from __future__ import annotations

import json
from datetime import datetime
from random import Random

PATHS = ("/", "/cart", "/checkout", "/orders", "/search", "/static/shop.css", "/login", "/help")
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "curl/8.5.0", "okhttp/4.12.0")
MODULES = ("shop.cart", "shop.orders", "shop.login", "shop.mail", "shop.stock")


def nginx_access(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A request in nginx's combined format."""
    path = rng.choice(PATHS)
    if path in {"/cart", "/orders"}:
        path = f"{path}/{rng.randrange(10_000, 99_999)}"
    status = 200 if rng.random() < 0.93 else rng.choice((301, 304, 404, 404, 499))
    if not path.startswith("/static") and rng.random() < (0.55 if is_outage else 0.002):
        status = rng.choice((502, 502, 504) if is_outage else (500, 503))
    method = "POST" if path == "/checkout" else "GET"
    return (
        f"{_address(rng)} - - [{moment:%d/%b/%Y:%H:%M:%S} +0000] "
        f'"{method} {path} HTTP/1.1" {status} {rng.randrange(150, 60_000)} '
        f'"-" "{rng.choice(AGENTS)}"\n'
    )


def nginx_error(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A line of nginx's error log."""
    head = f"{moment:%Y/%m/%d %H:%M:%S}"
    ids = f"{rng.randrange(20, 30)}#{rng.randrange(20, 30)}: *{rng.randrange(10_000, 999_999)}"
    tail = (
        f'client: {_address(rng)}, server: shop.example, request: "GET '
        f'/cart/{rng.randrange(99_999)} HTTP/1.1", '
        f'upstream: "http://10.0.4.{rng.randrange(2, 9)}/", host: "shop.example"\n'
    )
    if is_outage and rng.random() < 0.8:
        fault = rng.choice(
            (
                "connect() failed (111: Connection refused) while connecting to upstream",
                "upstream timed out (110: Connection timed out) while reading response header",
            )
        )
        return f"{head} [error] {ids} {fault}, {tail}"
    if rng.random() < 0.03:
        return f"{head} [crit] {ids} SSL_do_handshake() failed while SSL handshaking, {tail}"
    return f"{head} [warn] {ids} an upstream response is buffered to a temporary file, {tail}"


def python(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """An entry of a Python service, sometimes with a traceback."""
    head = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
    module, chance = rng.choice(MODULES), rng.random()
    order = rng.randrange(100_000, 999_999)
    if is_outage and chance < 0.5:
        module = rng.choice(("shop.cart", "shop.orders"))
        return (
            f"{head} ERROR [{module}] order {order} could not be loaded\n"
            f"{_traceback(module)}sqlalchemy.exc.OperationalError: connection to server at "
            f'"10.0.6.2", port 5432 failed: FATAL:  sorry, too many clients already\n'
        )
    if chance < 0.012:
        return (
            f"{head} ERROR [shop.mail] confirmation of order {order} was not sent\n"
            f"{_traceback('shop.mail')}KeyError: 'customer_email'\n"
        )
    if chance < 0.05:
        return f"{head} WARNING [{module}] stock check took {rng.randrange(800, 4000)} ms\n"
    if chance < 0.1:
        return (
            f"{head} INFO [shop.stock] recount finished: 0 errors, {rng.randrange(900)} changes\n"
        )
    return f"{head} INFO [{module}] order {order} moved on in {rng.randrange(4, 220)} ms\n"


def payments(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A JSON object on a line, as structured loggers write it."""
    level, message = "info", f"payment {rng.randrange(10**7, 10**8)} accepted"
    chance = rng.random()
    if is_outage and chance < 0.6:
        level, message = "error", f"ledger write failed after {rng.randrange(3, 6)} tries: timeout"
    elif chance < 0.008:
        level, message = "error", f"card declined by issuer: code {rng.choice((5, 51, 54, 61))}"
    elif chance < 0.012:
        level, message = "fatal", "signature of the bank's callback does not match"
    entry = {
        "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
        "level": level,
        "service": "payments",
        "message": message,
        "trace": f"{rng.getrandbits(64):016x}",
        "took_ms": rng.randrange(30, 9_000) / 10,
    }
    return json.dumps(entry, separators=(",", ":")) + "\n"


def java(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """An entry of a Java service, sometimes with a stack trace."""
    head = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    thread, chance = f"[http-nio-8080-exec-{rng.randrange(1, 40)}]", rng.random()
    if chance < (0.3 if is_outage else 0.006):
        return (
            f"{head} ERROR {thread} c.s.search.IndexClient - query {rng.getrandbits(24)} failed\n"
            f"java.net.SocketTimeoutException: Read timed out after {rng.randrange(3, 9)}000 ms\n"
            f"\tat com.shop.search.IndexClient.ask(IndexClient.java:{rng.choice((88, 131))})\n"
            f"\tat com.shop.search.Query.run(Query.java:52)\n"
        )
    if chance < 0.009:
        return (
            f"{head} ERROR {thread} c.s.search.Suggest - suggestions were not built\n"
            f'java.lang.NullPointerException: Cannot invoke "Product.title()"\n'
            f"\tat com.shop.search.Suggest.build(Suggest.java:{rng.choice((41, 77))})\n"
        )
    if chance < 0.06:
        return f"{head} WARN  {thread} c.s.search.Cache - {rng.randrange(60, 99)} % full\n"
    took = rng.randrange(3, 180)
    return f"{head} INFO  {thread} c.s.search.Query - {rng.randrange(0, 400)} hits in {took} ms\n"


def jobs(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A line of `key=value` pairs."""
    head = f"time={moment:%Y-%m-%dT%H:%M:%SZ}"
    job, chance = f"job=j{rng.randrange(10**6, 10**7)}", rng.random()
    if chance < (0.45 if is_outage else 0.01):
        return f'{head} level=error {job} msg="invoice not written" cause="lock wait timeout"\n'
    if chance < 0.015:
        return f'{head} level=fatal {job} msg="out of memory" rss={rng.randrange(900, 2000)}M\n'
    name = rng.choice(("invoice", "newsletter", "thumbnail", "export"))
    return f'{head} level=info {job} msg="{name} done" took={rng.randrange(20, 9000)}ms\n'


def database(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A line of PostgreSQL in syslog's form."""
    head = f"{_syslog(moment)} db-{rng.choice((1, 2))} postgres[{rng.randrange(900, 9000)}]:"
    chance = rng.random()
    if is_outage and chance < 0.75:
        return f"{head} FATAL:  sorry, too many clients already\n"
    if chance < 0.02:
        return f"{head} ERROR:  deadlock detected\n"
    if chance < 0.03:
        return f"{head} ERROR:  canceling statement due to statement timeout\n"
    took = rng.randrange(1, 900)
    return f"{head} LOG:  duration: {took}.{rng.randrange(1000):03d} ms  execute <unnamed>\n"


def cache(rng: Random, moment: datetime, *, is_outage: bool) -> str:
    """A line of a cache server and of its kernel, in syslog's form."""
    head = f"{_syslog(moment)} cache-{rng.choice((1, 2))}"
    chance = rng.random()
    if chance < (0.2 if is_outage else 0.004):
        return f"{head} valkey[{rng.randrange(400, 420)}]: error: client output buffer overcome\n"
    if chance < 0.006:
        return f"{head} kernel: EXT4-fs error (device vda{rng.randrange(1, 4)}): read failed\n"
    return f"{head} valkey[412]: {rng.randrange(900, 4000)} changes in 60 seconds. Saving...\n"


def _address(rng: Random) -> str:
    return f"203.0.113.{rng.randrange(1, 255)}"


def _syslog(moment: datetime) -> str:
    return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S}"


def _traceback(module: str) -> str:
    path = module.replace(".", "/")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/srv/{path}.py", line 88, in step\n'
        "    row = self.load(order_id)\n"
        f'  File "/srv/{path}.py", line 41, in load\n'
        "    return self.session.get(Order, order_id)\n"
    )
