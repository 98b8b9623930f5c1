"""Settings: the strongest source wins, and every value says where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.errors import LedgerError
from services.cli.backend import server_settings
from services.cli.settings import FIELDS, LOG_LEVELS, resolve, shown
from services.server.logging import LEVELS


def settings(tmp_path, flags=None, environ=None, project="", user=""):
    if project:
        (tmp_path / "ledger.toml").write_text(project)
    user_file = tmp_path / "user.toml"
    if user:
        user_file.write_text(user)
    return resolve(flags or {}, environ or {}, tmp_path, user_file)


def test_a_flag_wins_over_the_environment_over_the_project_over_the_user_over_the_default(tmp_path):
    layers = [
        ({"home": "a"}, {"LEDGER_HOME": "b"}, 'home = "c"', 'home = "d"', ("a", "flag")),
        ({}, {"LEDGER_HOME": "b"}, 'home = "c"', 'home = "d"', ("b", "environment")),
        ({}, {}, 'home = "c"', 'home = "d"', ("c", "project file")),
    ]
    for flags, environ, project, user, expected in layers:
        found = settings(tmp_path, flags, environ, project, user)["home"]
        assert expected == (found.value, found.source)
    (tmp_path / "ledger.toml").unlink()
    assert settings(tmp_path, user='home = "d"')["home"].source == "user file"
    (tmp_path / "user.toml").unlink()
    assert settings(tmp_path).home == Path(".ledger")


def test_a_setting_of_every_name_is_taken_from_the_environment(tmp_path):
    for field in FIELDS:
        assert settings(tmp_path, environ={field.environment: "7"})[field.name].value == "7"


def test_an_empty_variable_names_nothing(tmp_path):
    assert settings(tmp_path, environ={"LEDGER_ACTOR": ""})["actor"].source == "default"


def test_a_home_named_more_strongly_than_an_address_is_meant(tmp_path):
    environ = {"LEDGER_ADDRESS": "h:1"}
    assert settings(tmp_path, environ=environ).address == "h:1"
    assert settings(tmp_path, {"home": "x"}, environ).address is None
    assert settings(tmp_path, {"db": "x"}, environ).address is None
    assert settings(tmp_path, {"address": "h:2", "home": "x"}, environ).address == "h:2"


@pytest.mark.parametrize(
    ("content", "place"),
    [("homee = 'x'", "homee"), ("port = true", "port"), ("home = ['a']", "home"), ("home = ", None)],
)
def test_a_file_with_something_that_is_no_setting_is_refused(tmp_path, content, place):
    with pytest.raises(LedgerError) as caught:
        settings(tmp_path, project=content)
    assert caught.value.reason == "USAGE"
    assert "ledger.toml" in caught.value.message
    assert [p.place for p in caught.value.problems] == ([place] if place else [])


@pytest.mark.parametrize("port", ["x", "-1", "70000", "٣"])
def test_a_port_that_is_none_is_a_usage_error(tmp_path, port):
    with pytest.raises(LedgerError, match="environment"):
        _ = settings(tmp_path, environ={"LEDGER_PORT": port}).port


@pytest.mark.parametrize("level", ["loud", "INFO", "7"])
def test_a_log_level_that_is_none_is_a_usage_error_that_says_where_it_is_from(tmp_path, level):
    with pytest.raises(LedgerError, match="environment") as caught:
        _ = settings(tmp_path, environ={"LEDGER_LOG_LEVEL": level}).log_level
    assert "warning" in caught.value.remedy


def test_the_log_levels_are_those_of_the_server_and_none_is_named_by_default(tmp_path):
    assert LEVELS == LOG_LEVELS
    assert settings(tmp_path).log_level == ""
    for level in LEVELS:
        assert server_settings(settings(tmp_path, project=f'log_level = "{level}"')).log_level == level


@pytest.mark.parametrize("timeout", ["0", "-1", "soon", "1e3", "inf", ""])
def test_a_timeout_that_is_none_is_a_usage_error(tmp_path, timeout):
    with pytest.raises(LedgerError, match="flag"):
        _ = settings(tmp_path, {"timeout": timeout}).timeout


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("postgresql://me:secret@db/x", "postgresql://me:•••@db/x"),
        ("postgresql://me:se:cr@db/x", "postgresql://me:se:•••@db/x"),
        ("postgresql://db/x?password=secret&a=1", "postgresql://db/x?password=•••&a=1"),
        ("postgresql://me@db:5432/x", "postgresql://me@db:5432/x"),
        ("host=db user=me password=secret", "host=db user=me password=•••"),
    ],
)
def test_a_password_is_masked(value, expected):
    assert shown("db", value) == expected


def test_config_show_names_each_value_and_its_source(run, monkeypatch):
    monkeypatch.setenv("LEDGER_DB", "postgresql://me:hush@db/x")
    Path("ledger.toml").write_text("port = 99\n")
    listed = {s["name"]: s for s in run("config", "show", "--json", "--actor", "me").json}
    assert [f.name for f in FIELDS] == list(listed)
    assert listed["db"]["value"] == "postgresql://me:•••@db/x"
    assert (listed["port"]["value"], listed["port"]["source"]) == ("99", "project file")
    assert listed["actor"]["source"] == "flag"
    assert listed["address"]["value"] is None
    assert "hush" not in run("config", "show").out


def test_common_options_stand_before_the_command_or_after_and_the_last_one_wins(run):
    for arguments in (
        ("--json", "--actor", "me", "config", "show"),
        ("config", "--json", "show", "--actor", "me"),
        ("--actor", "you", "config", "--actor", "they", "show", "--actor", "me", "--json"),
    ):
        listed = {s["name"]: s["value"] for s in run(*arguments).json}
        assert listed["actor"] == "me"


def test_an_actor_that_no_header_can_hold_is_refused(run):
    got = run("defect", "suspect", "O:one", "--kind", "verifier", "--summary", "s", "--actor", "Zoë", "--home", "h")
    assert got.code == 2
    assert "actor" in got.err
