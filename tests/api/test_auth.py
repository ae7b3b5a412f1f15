from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from api.auth import Keyring, Knock, check_is_local, identify, keyring_of
from api.errors import Refusal
from api.tickets import Ticket, issue
from worker.settings import Settings

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEYS = keyring_of(
    Settings(api_keys=(SecretStr("plain"), SecretStr("acme:secret"), SecretStr("schlüssel")))
)


def knock(*headers: tuple[str, str | bytes], path: str = "/v1/runs", **query: str) -> Knock:
    return Knock(
        method="GET",
        path=path,
        headers=tuple(
            (name.encode(), value if isinstance(value, bytes) else value.encode())
            for name, value in headers
        ),
        query=tuple(query.items()),
        client="127.0.0.1",
    )


SHOWN = [
    [("authorization", "Bearer secret")],
    [("authorization", "bearer  secret")],
    [("x-api-key", "secret")],
    [("authorization", "Bearer secret"), ("x-api-key", "secret")],
]


@pytest.mark.parametrize("headers", SHOWN)
def test_a_key_is_its_tenant_in_every_style(headers: list[tuple[str, str]]) -> None:
    assert identify(knock(*headers), KEYS, NOW).tenant == "acme"


def test_a_key_without_a_tenant_is_the_default_one() -> None:
    assert identify(knock(("x-api-key", "plain")), KEYS, NOW).tenant == "default"


def test_a_key_may_be_written_in_any_script() -> None:
    assert identify(knock(("x-api-key", "schlüssel")), KEYS, NOW).tenant == "default"


REFUSED: list[list[tuple[str, str | bytes]]] = [
    [],
    [("authorization", "Bearer wrong")],
    [("authorization", "secret")],
    [("authorization", "Basic c2VjcmV0")],
    [("authorization", "Bearer")],
    [("authorization", "")],
    [("x-api-key", "")],
    [("x-api-key", "acme:secret")],
    [("x-api-key", "schl\u00fcssel".encode("latin-1"))],
    [("x-api-key", b"\xff\xfe\0")],
    [("x-api-key", "\u202esecret")],
    [("authorization", "Bearer secret"), ("x-api-key", "plain")],
    [("authorization", "Bearer secret"), ("x-api-key", "wrong")],
    [("authorization", "Bearer secret"), ("authorization", "Bearer plain")],
    [("x-api-key", "secret"), ("x-api-key", "plain")],
]


@pytest.mark.parametrize("headers", REFUSED)
def test_anything_but_one_known_key_is_401(headers: list[tuple[str, str | bytes]]) -> None:
    with pytest.raises(Refusal) as refused:
        identify(knock(*headers), KEYS, NOW)

    assert refused.value.status == 401
    assert refused.value.headers == {"WWW-Authenticate": "Bearer"}
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["api_key", "key", "access_token", "X-Api-Key", "Authorization"])
def test_a_key_in_the_address_is_refused_even_beside_a_good_one(name: str) -> None:
    shown = knock(("x-api-key", "secret"), **{name: "secret"})

    with pytest.raises(Refusal, match="address"):
        identify(shown, KEYS, NOW)


def ticket(keyring: Keyring = KEYS, run_id: str = "run_1", life: float = 60) -> str:
    caller = keyring.find(b"secret")
    assert caller is not None
    return issue(Ticket(caller.key_id, run_id, NOW + timedelta(seconds=life)), caller.digest)


def test_a_ticket_opens_its_stream_as_the_tenant_that_asked_for_it() -> None:
    shown = knock(path="/v1/runs/run_1/events", ticket=ticket())

    assert identify(shown, KEYS, NOW).tenant == "acme"


def test_a_ticket_opens_nothing_else() -> None:
    for path in ("/v1/runs/run_2/events", "/v1/runs/run_1", "/v1/runs/run_1/cancel", "/v1/runs"):
        with pytest.raises(Refusal, match="another stream"):
            identify(knock(path=path, ticket=ticket()), KEYS, NOW)


def test_a_ticket_ends_with_its_time_and_with_its_key() -> None:
    path = "/v1/runs/run_1/events"
    without = keyring_of(Settings(api_keys=(SecretStr("plain"),)))

    with pytest.raises(Refusal, match="time is over"):
        identify(knock(path=path, ticket=ticket(life=0)), KEYS, NOW)
    with pytest.raises(Refusal, match="not one of"):
        identify(knock(path=path, ticket=ticket()), without, NOW)


def test_a_forged_ticket_is_refused() -> None:
    good = ticket(run_id="run_1")
    forged = good.replace("run_1", "run_2")

    with pytest.raises(Refusal, match="not one of"):
        identify(knock(path="/v1/runs/run_2/events", ticket=forged), KEYS, NOW)


HOSTS = ["localhost", "localhost:8000", "127.0.0.1:80", "127.9.9.9", "[::1]:8000", "[::1]"]
HOSTS += ["LOCALHOST:80", "127.0.0.1:65535"]
FOREIGN = ["example.com", "127.0.0.1.example.com", "localhost.evil.com", "10.0.0.1", "", "0.0.0.0"]
FOREIGN += ["evil@127.0.0.1", "evil:x@localhost", "127.0.0.1#x", "127.0.0.1/x", "localhost?x"]
FOREIGN += ["[", "]", "[]", "[::1", "::1", "[::1]x", "[localhost]", "[::1%25x]", "[v1.a]", "[::1]]"]
FOREIGN += [
    "127.0.0.1:",
    "localhost:x",
    "localhost:1:2",
    " localhost",
    "localhost\n",
    "127.1",
    ":80",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_of_this_machine_is_served_without_keys(host: str) -> None:
    check_is_local(knock(("host", host)), origins=())


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_421_without_keys(host: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_is_local(knock(("host", host)), origins=())

    assert refused.value.status == 421


ORIGINS = [
    ("http://localhost:3000", True),
    ("http://127.0.0.1", True),
    ("https://app.example.com", True),
    ("https://evil.example.com", False),
    ("https://app.example.com.evil.com", False),
    ("null", False),
    ("", False),
    ("http://localhost.evil.com", False),
    ("http://[::1]:3000", True),
    ("http://[", False),
    ("http://]", False),
    ("http://", False),
    ("localhost", False),
    ("http://evil@127.0.0.1", False),
    ("http://127.0.0.1#x", False),
    ("http://127.0.0.1/", False),
    ("http://evil.com://127.0.0.1", False),
    ("http://[::1]evil.com", False),
]


@pytest.mark.parametrize(("origin", "is_served"), ORIGINS)
def test_a_foreign_origin_is_403_without_keys(origin: str, is_served: bool) -> None:
    shown = knock(("host", "localhost"), ("origin", origin))

    if is_served:
        check_is_local(shown, origins=("https://app.example.com",))
    else:
        with pytest.raises(Refusal) as refused:
            check_is_local(shown, origins=("https://app.example.com",))
        assert refused.value.status == 403


def test_a_client_of_another_machine_is_403_without_keys() -> None:
    shown = Knock("GET", "/", ((b"host", b"localhost"),), (), client="10.1.2.3")

    with pytest.raises(Refusal, match="this machine alone"):
        check_is_local(shown, origins=())


def test_keys_are_not_kept_as_they_are() -> None:
    assert "secret" not in repr(vars(KEYS))
