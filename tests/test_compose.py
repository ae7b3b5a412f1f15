"""The compose file: valid by the specification, and as careful as it says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from compose_spec import PyCompose

from api.cli import command
from worker.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("api", "worker", "tool-worker")


def test_the_file_is_valid_by_the_specification() -> None:
    # YAML's merge keys are resolved before, as docker does.
    assert sorted(PyCompose.from_yaml(yaml.safe_dump(COMPOSE)).service_names()) == sorted(
        ["redis", *OURS]
    )


def test_the_server_keeps_what_it_is_given() -> None:
    command_line = " ".join(SERVICES["redis"]["command"])

    assert "--appendonly yes" in command_line
    assert "--maxmemory-policy noeviction" in command_line
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]
    assert "ports" not in SERVICES["redis"]


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_runs_as_root_and_each_has_a_health_check(name: str) -> None:
    service = SERVICES[name]

    assert not service["user"].startswith("0")
    assert service["cap_drop"] == ["ALL"]
    assert service["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", OURS)
def test_nothing_starts_without_keys_or_before_the_server_answers(name: str) -> None:
    service = SERVICES[name]

    assert service["environment"]["LOOPMILL_API_KEYS"].startswith("${LOOPMILL_API_KEYS:?")
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting(name: str) -> None:
    known = {f"LOOPMILL_{field.upper()}" for field in Settings.model_fields}

    assert {each for each in SERVICES[name]["environment"] if each.startswith("LOOPMILL")} <= known


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_that_can_be_typed(name: str) -> None:
    runner = CliRunner()

    said = runner.invoke(command, [*SERVICES[name]["command"], "--help"])

    assert said.exit_code == 0, said.output
    assert "Usage" in said.output


def test_workers_get_longer_to_stop_than_they_take_to_drain() -> None:
    settings = Settings()

    for name in ("worker", "tool-worker"):
        grace = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
        assert grace > max(settings.drain, settings.tool_drain).total_seconds()


def test_the_image_runs_as_a_user_and_starts_the_command() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()

    (user,) = [line for line in lines if line.startswith("USER")]
    assert user == "USER loopmill"
    assert lines.index(user) < lines.index('ENTRYPOINT ["loopmill"]')
    copied = {
        word for line in lines if line.startswith("COPY") for word in re.findall(r"\w+", line)
    }
    assert {"api", "worker", "loops"} <= copied
