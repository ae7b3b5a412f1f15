import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Place, write_agents

Here = Callable[..., subprocess.CompletedProcess[str]]


def test_a_run_is_shown_as_it_goes_on(place: Place) -> None:
    shown = place.loopmill("run", "doubler", "double four")

    assert (shown.returncode, shown.stdout) == (0, "I double.\nDone.\n")
    assert re.match(r"→ run run_\w+ queued \(session ses_\w+\)\n→ run started", shown.stderr)
    assert '⇢ tool double {"number":4}' in shown.stderr
    assert "⇠ tool double 0." in shown.stderr
    assert re.search(r"⇠ tool double \S+ failed: ValueError: too large to double", shown.stderr)
    assert shown.stderr.endswith("✓ run completed\n")


def test_a_run_that_fails_says_why(place: Place) -> None:
    shown = place.loopmill("run", "broken", "go")

    assert (shown.returncode, shown.stdout) == (1, "about to break\n")
    assert "! run failed: loop_failed: the loop raised RuntimeError: it broke\n" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_session_is_carried_on(place: Place) -> None:
    first = place.loopmill("run", "echo", "one")
    (session,) = re.findall(r"session (ses_\w+)", first.stderr)

    second = place.loopmill("run", "echo", "two", "--session", session)

    assert second.stdout == "you said two\n"
    assert session in second.stderr


def test_tail_shows_a_run_again_and_from_where_one_left(place: Place) -> None:
    run_id = re.findall(r"run_\w+", place.loopmill("run", "echo", "hello").stderr)[0]

    again = place.loopmill("tail", run_id)
    rest = place.loopmill("tail", run_id, "--after", "4")

    assert (again.returncode, again.stdout) == (0, "you said hello\n")
    assert rest.returncode == 0
    assert len(rest.stderr) < len(again.stderr)


def test_a_run_is_cancelled(place: Place) -> None:
    following = place.start("run", "slow", "go")
    first_line = following.stderr.readline() if following.stderr else ""
    (run_id,) = re.findall(r"run_\w+", first_line)

    receipt = place.loopmill("cancel", run_id)
    words, lines = following.communicate(timeout=30)

    assert receipt.returncode == 0
    assert receipt.stdout.startswith(f"run {run_id}: ")
    assert (following.returncode, lines.splitlines()[-1]) == (1, "! run cancelled")
    assert words in {"", "begun\n"}
    assert "already" in place.loopmill("cancel", run_id).stderr


def test_ctrl_c_leaves_the_run_alone_and_says_how_to_go_on(place: Place) -> None:
    following = place.start("run", "slow", "go")
    assert following.stdout
    assert following.stdout.read(5) == "begun"

    following.send_signal(signal.SIGINT)
    _, lines = following.communicate(timeout=30)

    run_id = re.findall(r"run_\w+", lines)[0]
    assert following.returncode == 130
    assert re.search(rf"loopmill tail {run_id} --after \d+", lines)
    assert place.loopmill("cancel", run_id).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nobody", "hi"], "no agent is named 'nobody'"),
        (["tail", "run_" + "0" * 32], "unknown"),
        (["cancel", "run_" + "0" * 32], "unknown"),
        (["tail", "not-an-id"], "unknown"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(place: Place, arguments: list[str], said: str) -> None:
    shown = place.loopmill(*arguments)

    assert shown.returncode == 1
    assert shown.stderr.startswith("loopmill: ")
    assert said in shown.stderr.lower()
    assert len(shown.stderr.splitlines()) == 1


def test_an_api_that_is_not_there_is_said_with_the_mend(here: Here) -> None:
    shown = here("run", "echo", "hi")

    assert shown.returncode == 1
    assert "no API answers at http://127.0.0.1:9" in shown.stderr
    assert "loopmill dev" in shown.stderr


def test_a_healthy_worker_is_seen_from_outside(place: Place) -> None:
    assert place.loopmill("worker", "--check").returncode == 0


def test_a_worker_that_is_not_there_is_seen_too(place: Place) -> None:
    assert place.loopmill("worker", "--check", LOOPMILL_NAMESPACE="empty").returncode == 1
    elsewhere = "redis://127.0.0.1:9/0"
    assert place.loopmill("worker", "--check", LOOPMILL_REDIS_URL=elsewhere).returncode == 1


def test_check_says_what_the_configuration_means(place: Place) -> None:
    shown = place.loopmill("check", LOOPMILL_API_KEYS="secret-one,team:secret-two")

    assert shown.returncode == 0
    assert "my_agents:app has 4 agents" in shown.stdout
    assert "doubler, tools: double" in shown.stdout
    assert re.search(r"✓ server\s+(redis|valkey) \d+\.", shown.stdout)
    assert "2 keys" in shown.stdout
    assert "secret" not in shown.stdout


def test_check_says_which_models_are_configured(place: Place) -> None:
    entries = [
        {"model_name": "fast", "params": {"model": "groq/llama", "api_key": "sk-canary"}},
        {"model_name": "slow", "params": {"model": "anthropic/x", "api_key": "env/NOT_SET"}},
    ]
    file = place.folder / "config.yaml"
    file.write_text(json.dumps({"model_list": entries}))

    shown = place.loopmill("check", LOOPMILL_CONFIG=str(file))

    assert shown.returncode == 1
    assert re.search(r"✓ model\s+'fast': groq/llama, groq:[0-9a-f]{12}\n", shown.stdout)
    assert re.search(r"! model\s+the configured model 'slow': .* set NOT_SET\n", shown.stdout)
    assert "canary" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"LOOPMILL_LEASE": "soon"}, "LOOPMILL_LEASE is 'soon'"),
        ({"LOOPMILL_APP": "nowhere:app"}, "there is no module 'nowhere'"),
        ({"LOOPMILL_APP": ""}, "LOOPMILL_APP is not set"),
        ({"LOOPMILL_REDIS_URL": "redis://127.0.0.1:9/0"}, "does not answer"),
        ({"LOOPMILL_API_KEY": "x"}, "LOOPMILL_API_KEY is no setting; did you mean LOOPMILL_API_K"),
        ({"LOOPMILL_BANANA": "x"}, "LOOPMILL_BANANA is no setting; unset it"),
        ({"LOOPMILL_CONFIG": "x.yaml"}, "LOOPMILL_CONFIG is 'x.yaml', which cannot be read"),
    ],
)
def test_check_names_each_problem(here: Here, changes: dict[str, str], said: str) -> None:
    shown = here("check", **changes)

    assert shown.returncode == 1
    assert any(line.startswith("!") and said in line for line in shown.stdout.splitlines())
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("name", ["api", "worker", "loops"])
def test_a_folder_with_packages_of_our_names_stops_the_start(
    here: Here, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")

    shown = here("check")

    assert shown.returncode == 2
    assert (
        f"{str(tmp_path / name)!r} has the name of one of Loopmill's own packages" in shown.stderr
    )


def test_a_folder_that_is_no_package_stops_nothing(here: Here, tmp_path: Path) -> None:
    write_agents(tmp_path)
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "openapi.yaml").write_text("")

    assert here("check").returncode == 0


def test_the_current_folder_comes_after_what_is_installed(here: Here, tmp_path: Path) -> None:
    write_agents(tmp_path)
    (tmp_path / "redis.py").write_text("raise SystemExit('the wrong redis')")

    assert here("check").returncode == 0


def test_an_api_without_keys_serves_no_strangers(place: Place) -> None:
    shown = place.loopmill("api", "--host", "0.0.0.0", "--port", "0")

    assert shown.returncode == 2
    assert "LOOPMILL_API_KEYS" in shown.stderr


def test_check_says_what_is_wrong_in_the_app_in_a_line(here: Here, tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text("import loops as ai\napp = ai.App({)\n")

    shown = here("check", LOOPMILL_URL="http://127.0.0.1:1", LOOPMILL_KEY="k")

    (problem,) = [line for line in shown.stdout.splitlines() if line.startswith("!")]
    assert problem.startswith("! app       my_agents.py line 2: SyntaxError: ")
    assert (shown.returncode, shown.stderr) == (1, "")


def test_check_looks_at_each_agent(here: Here, tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text("import loops as ai\napp = ai.App({'a': ai.Agent()})\n")

    shown = here("check")

    assert "! agent     a: it has no model" in shown.stdout
    assert shown.stdout.endswith("1 problem\n")


@pytest.mark.parametrize("command", ["api", "worker"])
def test_who_serves_without_a_server_ends_with_a_line(
    here: Here, tmp_path: Path, command: str
) -> None:
    write_agents(tmp_path)

    shown = here(command)

    assert shown.returncode == 2
    assert shown.stderr.startswith("loopmill: LOOPMILL_REDIS_URL is not set: name a server")
    assert len(shown.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["api", "worker"])
def test_who_serves_a_broken_app_ends_with_a_line(here: Here, tmp_path: Path, command: str) -> None:
    (tmp_path / "my_agents.py").write_text("1 / 0")

    shown = here(command, LOOPMILL_REDIS_URL="redis://127.0.0.1:9/0")

    assert shown.returncode == 2
    assert shown.stderr == ("loopmill: my_agents.py line 1: ZeroDivisionError: division by zero\n")


def test_an_api_on_a_taken_port_names_it_and_another(place: Place) -> None:
    port = int(place.url.rpartition(":")[2])

    shown = place.loopmill("api", "--port", str(port))

    assert shown.returncode == 2
    assert shown.stderr == (
        f"loopmill: port {port} of 127.0.0.1 is taken: end what listens there, "
        f"or take another with --port {port + 1}\n"
    )


def test_runs_are_listed_and_counted(place: Place) -> None:
    for agent in ("broken", "echo", "echo"):
        place.loopmill("run", agent, "listed")

    failed = place.loopmill("runs", "--status", "failed", "--limit", "1")
    everything = place.loopmill("runs", "--limit", "2")

    assert (failed.stderr, everything.stderr) == ("", "")
    newest = failed.stdout.splitlines()[0]
    assert re.fullmatch(r"run_\w+  \S+ \S+  failed     broken  loop_failed: the loop.*", newest)
    assert re.search(r"^\d+ failed$", failed.stdout, re.MULTILINE)
    lines = everything.stdout.splitlines()
    assert [line.split()[3:5] for line in lines[:2]] == [["completed", "echo"]] * 2
    assert re.fullmatch(r"(.*, )?\d+ completed(, .*)?, \d+ failed(, .*)?", lines[-1])


def test_where_the_api_is_and_the_key_come_from_the_environment(place: Place) -> None:
    assert "no API answers at http://127.0.0.1:1 " in (
        place.loopmill("runs", LOOPMILL_URL="http://127.0.0.1:1").stderr
    )
    wrong = place.loopmill("runs", LOOPMILL_URL="localhost:8000")
    assert wrong.stderr == (
        "loopmill: an API's address is http://HOST:PORT, not 'localhost:8000'; "
        "name another one with --url or LOOPMILL_URL\n"
    )
