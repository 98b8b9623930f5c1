"""ledger config: what the settings are, and what named them."""

from __future__ import annotations

import click

from services.cli.options import Group
from services.cli.settings import FIELDS, shown
from services.cli.state import State


@click.group("config", cls=Group, example="ledger config show")
def config() -> None:
    """The settings."""


@config.command("show", example="ledger config show --json")
@click.pass_obj
def show(state: State) -> None:
    """Show each setting with what named it; passwords are masked.

    The first that names a setting wins: flag, environment, ledger.toml in the working directory, ledger.toml in the
    user's configuration folder, default.
    """
    listed = [
        {
            "name": field.name,
            "value": shown(field.name, state.settings[field.name].value),
            "source": state.settings[field.name].source,
            "environment": field.environment,
            "meaning": field.meaning,
        }
        for field in FIELDS
    ]
    out = state.output
    if out.as_json:
        out.json(listed)
        return
    out.table(
        ["setting", "value", "from", "environment", "meaning"],
        [[s["name"], s["value"] or "-", s["source"], s["environment"], s["meaning"]] for s in listed],
    )
