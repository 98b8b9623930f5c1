"""The tree of commands: every one shows how it is used, and all share one shape."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import click
import pytest

from ledger.core.errors import REASONS
from services.cli.main import cli
from services.cli.options import EXIT_CODES


def walk(command: click.Command, path: tuple[str, ...] = ()):
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from walk(child, (*path, name))


TREE = list(walk(cli))
COMMANDS = [path for path, command in TREE if not isinstance(command, click.Group)]


@pytest.mark.parametrize("path", [path for path, _ in TREE], ids=lambda p: " ".join(p) or "ledger")
def test_help_begins_with_an_example_and_ends_with_the_exit_codes(run, path):
    got = run(*path, "--help")
    assert got.code == 0
    lines = got.out.splitlines()
    assert lines[0] == "Example:"
    assert lines[1].strip().startswith("ledger ")
    assert "--json" in got.out
    codes = [line.split()[0] for line in lines[lines.index("Exit codes:") + 1 :]]
    assert codes == [str(code) for code, _ in EXIT_CODES]


@pytest.mark.parametrize(("path", "command"), [(p, c) for p, c in TREE if p], ids=str)
def test_every_command_says_what_it_does(path, command):
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option) and param.name != "note":
            assert param.help, f"{' '.join(path)} {param.opts[0]}"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_example_is_a_command_line_that_the_command_takes(path):
    """The words up to the arguments name the command itself, and each option in it is one of its own."""
    command = cli
    for name in path:
        command = command.commands[name]
    known = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    own_lines = [line for line in command.example.replace("\\\n", " ").splitlines() if line.startswith("ledger")]
    assert any(line.startswith(" ".join(("ledger", *path))) for line in own_lines)
    for line in own_lines:
        used = {word for word in line.split() if word.startswith("-")}
        assert used <= known, line


def test_the_commands_are_those_that_were_promised():
    assert {" ".join(path) for path in COMMANDS} == {
        "serve",
        "demo",
        "catalogue import",
        "catalogue validate",
        "catalogue publish",
        "catalogue versions",
        "catalogue export",
        "catalogue count",
        "catalogue retire",
        "catalogue reinstate",
        "catalogue alias map",
        "catalogue alias list",
        "source list",
        "source show",
        "source why",
        "source revise",
        "review publish",
        "review supersede",
        "review list",
        "defect suspect",
        "defect confirm",
        "defect validation",
        "defect resolve",
        "defect reopen",
        "defect withdraw",
        "difficulty publish",
        "difficulty context",
        "difficulty history",
        "attest implementation",
        "attest dataset",
        "attest native",
        "attest grading",
        "attest list",
        "audit judgments",
        "audit agreement",
        "audit timeline",
        "audit diff",
        "audit why",
        "audit queue",
        "run list",
        "run show",
        "run record",
        "sweep list",
        "sweep show",
        "check",
        "lineage",
        "affected",
        "turned",
        "card",
        "logs",
        "traces build",
        "backfill skyrl",
        "backfill harbor",
        "backfill wandb",
        "backfill mlflow",
        "backfill export",
        "backfill checkpoints",
        "sync",
        "train",
        "export model",
        "export verify",
        "event show",
        "event disregard",
        "log fsck",
        "log tail",
        "projection list",
        "projection rebuild",
        "projection diff",
        "projection promote",
        "projection drop",
        "rules list",
        "rules show",
        "rules adopt",
        "protocol list",
        "protocol show",
        "protocol define",
        "protocol adopt",
        "artifact put",
        "artifact get",
        "schema list",
        "schema show",
        "config show",
        "db upgrade",
    }


def test_the_exit_codes_of_the_help_are_those_of_the_error_table():
    assert {door.exit for door in REASONS.values()} | {0} == {code for code, _ in EXIT_CODES}


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["sources", "list"], "source"), (["source", "showing", "x"], "show"), (["schema", "list", "--jsn"], "--json")],
)
def test_a_word_that_is_nearly_right_is_answered_with_the_right_one(run, arguments, near):
    got = run(*arguments)
    assert got.code == 2
    assert near in got.err
    assert got.out == ""


def test_a_usage_error_is_json_when_json_was_asked_for(run):
    error = run("source", "show", "--json").error
    assert error["reason"] == "USAGE"
    assert "ledger source show --help" in error["remedy"]


def test_without_a_command_the_help_is_shown_or_one_is_asked_for(run):
    assert "Usage: ledger" in run().err
    assert run("--json").error["message"] == "Missing command."


def test_the_version_names_software_wire_schema_and_database(run):
    assert [line.split()[0] for line in run("--version").out.splitlines()] == ["software", "wire", "schema", "database"]
    versions = run("--version", "--json").json
    assert versions["wire"] == "atlas.ledger.v1"
    run("source", "list")
    with closing(sqlite3.connect(".ledger/ledger.db")) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchone() == (versions["database"],)
