"""What the environment says, checked whole."""

from datetime import timedelta

import pytest

from worker.settings import Settings, SettingsError, duration, settings_table, show_duration


def test_nothing_in_the_environment_gives_the_defaults():
    settings = Settings.from_env({"PATH": "/bin", "LOOPMILL_APP": "  "})

    assert settings == Settings()
    assert settings.lease == timedelta(seconds=10)
    assert settings.redis_url is None
    assert settings.app is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 10),
        ("10s", 10),
        ("5m", 300),
        ("1h", 3600),
        ("7d", 604800),
        ("250ms", 0.25),
        (" 1.5 s ", 1.5),
    ],
)
def test_a_duration_is_written_in_the_unit_that_suits_it(text: str, seconds: float):
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["1h", "25s", "5m", "7d", "250ms"])
def test_a_duration_is_shown_as_it_is_written(text: str):
    assert show_duration(duration(text)) == text


def test_values_are_read_by_kind():
    settings = Settings.from_env(
        {
            "LOOPMILL_LEASE": "30s",
            "LOOPMILL_DRAIN": "0",
            "LOOPMILL_LOG_BYTES": "4MB",
            "LOOPMILL_QUEUE_DEPTH": "5",
            "LOOPMILL_API_KEYS": "one, acme:two ,",
            "LOOPMILL_CORS_ORIGINS": "https://a.example,https://b.example",
        }
    )

    assert settings.lease == timedelta(seconds=30)
    assert settings.drain == timedelta(0)
    assert settings.log_bytes == 4 * 1024**2
    assert settings.queue_depth == 5
    assert [key.get_secret_value() for key in settings.api_keys] == ["one", "acme:two"]
    assert settings.cors_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("LEASE", "ten", "LOOPMILL_LEASE is 'ten': write a duration such as 10s"),
        ("LEASE", "0", "LOOPMILL_LEASE is '0': write a duration that is longer than nothing"),
        ("QUEUE_DEPTH", "-1", "LOOPMILL_QUEUE_DEPTH is '-1': input should be greater than 0"),
        ("MEMORY_LIMIT", "1.5", "LOOPMILL_MEMORY_LIMIT is '1.5': "),
        ("LOG_BYTES", "8XB", "LOOPMILL_LOG_BYTES is '8XB': write a number of bytes"),
        ("NAMESPACE", "a:b", "LOOPMILL_NAMESPACE is 'a:b': "),
    ],
)
def test_a_bad_value_names_the_variable_the_value_and_the_mend(name: str, value: str, told: str):
    with pytest.raises(SettingsError) as error:
        Settings.from_env({f"LOOPMILL_{name}": value})

    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDIS_URL", "http://:hunter2@host"),
        ("API_KEYS", "a:hunter2:"),
        ("API_KEYS", "bad tenant:hunter2"),
    ],
)
def test_a_bad_secret_is_not_shown(name: str, value: str):
    with pytest.raises(SettingsError) as error:
        Settings.from_env({f"LOOPMILL_{name}": value})

    assert f"LOOPMILL_{name}" in str(error.value)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_secrets_are_never_shown():
    settings = Settings.from_env(
        {"LOOPMILL_REDIS_URL": "redis://:hunter2@host", "LOOPMILL_API_KEYS": "acme:hunter3"}
    )

    assert "hunter" not in repr(settings)
    assert "hunter" not in str(settings.model_dump())


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Settings().lease = timedelta(seconds=1)


def test_the_table_has_a_described_row_for_every_setting():
    rows = settings_table().splitlines()[2:]

    assert len(rows) == len(Settings.model_fields)
    assert "| `LOOPMILL_LEASE` | `10s` | How long a claim lasts without a renewal. |" in rows
    assert all(row.split("|")[3].strip() for row in rows)
