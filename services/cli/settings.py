"""Where each setting comes from. The first that names it wins: flag, environment, project file, user file, default.

The project file is `ledger.toml` in the working directory, the user file the one in the user's configuration folder.
Both hold settings by name at their top level, such as `home = "/srv/ledger"`. A name that is not a setting is refused,
so that a slip of the pen is never a default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from platformdirs import user_config_path

from ledger.core.errors import InvalidInput, Problem
from ledger.rules.sets import DEFAULT_RULES, RULE_SETS

FILE_NAME: Final = "ledger.toml"
ACTOR_KINDS: Final = ("human", "model", "organization", "unknown")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_SOURCES: Final = ("flag", "environment", "project file", "user file", "default")
_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
_PASSWORD: Final = re.compile(r"(?<=:)[^:@/]+(?=@)|(?<=password=)[^&\s]+", re.IGNORECASE)


@dataclass(frozen=True)
class Field:
    """A setting: its name, what it means, and what it is when nobody names it."""

    name: str
    meaning: str
    default: str | None = None

    @property
    def environment(self) -> str:
        return f"LEDGER_{self.name.upper()}"


FIELDS: Final = (
    Field("home", "Folder that holds all local state", ".ledger"),
    Field("db", "Postgres database to use in place of the home's SQLite file"),
    Field("address", "A running ledger: HOST:PORT or unix:/PATH"),
    Field("actor", "Who says it: a pseudonymous id in printable ASCII", "unknown"),
    Field("actor_kind", "What the actor is: " + ", ".join(ACTOR_KINDS), "unknown"),
    Field("timeout", "Seconds that a call to the ledger may take", "30"),
    Field("host", "Address that `ledger serve` binds to", "127.0.0.1"),
    Field("port", "Port that `ledger serve` binds to", "7410"),
    Field("artifacts", "Folder of the evidence bytes, in place of the one in the home"),
    Field("first_rules", "Rule set that a new log starts under; an existing log keeps its own", DEFAULT_RULES),
    Field("log_level", "From which level the server's own log speaks: " + ", ".join(LOG_LEVELS)),
)
_NAMES: Final = {f.name for f in FIELDS}


@dataclass(frozen=True)
class Setting:
    """A setting's value, and what named it."""

    value: str | None
    source: str

    @property
    def rank(self) -> int:
        """0 is the strongest."""
        return _SOURCES.index(self.source)


@dataclass(frozen=True)
class Settings:
    """All settings, resolved."""

    by_name: Mapping[str, Setting]
    unknown_variables: tuple[str, ...] = ()
    """Of the environment: they look like settings and are none."""

    def __getitem__(self, name: str) -> Setting:
        return self.by_name[name]

    def text(self, name: str) -> str:
        """The value of a setting that has a default."""
        value = self.by_name[name].value
        assert value is not None, f"{name} has no default"
        return value

    @property
    def home(self) -> Path:
        return Path(self.text("home"))

    @property
    def db(self) -> str | None:
        return self.by_name["db"].value

    @property
    def port(self) -> int:
        text = self.text("port")
        if not (text.isascii() and text.isdigit() and int(text) < 65_536):
            raise _wrong(f"the port {text!r}, from the {self['port'].source}", "Give a number from 0 to 65535.")
        return int(text)

    @property
    def timeout(self) -> float:
        text = self.text("timeout")
        if not _SECONDS.fullmatch(text) or float(text) <= 0:
            raise _wrong(f"the timeout {text!r}, from the {self['timeout'].source}", "Give seconds, such as 30 or 0.5.")
        return float(text)

    @property
    def artifacts(self) -> Path | None:
        value = self.by_name["artifacts"].value
        return None if value is None else Path(value)

    @property
    def first_rules(self) -> str:
        """Of the rule sets that this release carries."""
        rules = self.text("first_rules")
        if rules not in RULE_SETS:
            source = self.by_name["first_rules"].source
            raise _wrong(f"the first rules {rules!r}, from the {source}", f"Give one of {', '.join(RULE_SETS)}.")
        return rules

    @property
    def log_level(self) -> str:
        """Empty when nobody names one: the server then goes by what it is run for."""
        level = self.by_name["log_level"].value or ""
        if level and level not in LOG_LEVELS:
            source = self.by_name["log_level"].source
            raise _wrong(f"the log level {level!r}, from the {source}", f"Give one of {', '.join(LOG_LEVELS)}.")
        return level

    @property
    def address(self) -> str | None:
        """The running ledger to speak to, unless a home or database is named more strongly than it."""
        address = self.by_name["address"]
        nearest = min(self.by_name["home"].rank, self.by_name["db"].rank)
        return address.value if address.rank <= nearest else None


def resolve(
    flags: Mapping[str, str], environ: Mapping[str, str], folder: Path, user_file: Path | None = None
) -> Settings:
    """The settings for a command that runs in `folder`.

    Raises:
        InvalidInput: reason USAGE, if a file cannot be read or names something that is no setting.
    """
    user_file = user_file or user_config_path("atlas-ledger") / FILE_NAME
    layers = (
        flags,
        {f.name: environ[f.environment] for f in FIELDS if environ.get(f.environment)},
        _read(folder / FILE_NAME),
        _read(user_file),
        {f.name: f.default for f in FIELDS},
    )
    return Settings({f.name: _first(f.name, layers) for f in FIELDS}, _unknown(environ))


def shown(name: str, value: str | None) -> str | None:
    """The value as it may be printed: passwords are masked."""
    return _PASSWORD.sub("•••", value) if name == "db" and value is not None else value


def _first(name: str, layers: tuple[Mapping[str, str | None], ...]) -> Setting:
    for source, layer in zip(_SOURCES, layers, strict=True):
        if name in layer:
            return Setting(layer[name], source)
    raise KeyError(name)


_OF_OTHERS: Final = frozenset({"LEDGER_FILE", "LEDGER_HYPOTHESIS"})
"""Of the accounting tool of the same name, and of our own tests."""


def _unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = {f.environment for f in FIELDS} | _OF_OTHERS
    return tuple(sorted(name for name in environ if name.startswith("LEDGER_") and name not in known))


def _read(path: Path) -> dict[str, str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _wrong(f"the settings file {path}: {error}", "Correct the file, or remove it.") from None
    problems = [Problem(key, "is no setting") for key in content if key not in _NAMES]
    problems += [
        Problem(key, "is neither text nor a number")
        for key, value in content.items()
        if key in _NAMES and (isinstance(value, bool) or not isinstance(value, (str, int, float)))
    ]
    if problems:
        known = ", ".join(f.name for f in FIELDS)
        raise _wrong(f"the settings file {path}", f"Settings are {known}; each is text.", problems)
    return {key: str(value) for key, value in content.items()}


def _wrong(what: str, remedy: str, problems: list[Problem] | None = None) -> InvalidInput:
    return InvalidInput(f"cannot use {what}", reason="USAGE", remedy=remedy, problems=problems or [])
