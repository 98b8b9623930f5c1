"""ledger rules: the rule sets that this release carries, and which of them the log has adopted."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import click

from ledger.client.drafts import Publication, draft
from ledger.events.policy import RulesAdopted
from ledger.rules.sets import ALL_RULE_SETS, DEFAULT_RUN_RULES, RUN_RULE_SETS, rules_digest
from services.cli.models import made
from services.cli.options import Group, at_option, dry_run_option
from services.cli.output import Cell
from services.cli.policy_history import RULES_STREAM, RuleSetHistory, rules_history, size_at
from services.cli.publishing import publish, show_plan
from services.cli.state import State


@click.group("rules", cls=Group, example="ledger rules list")
def rules_() -> None:
    """Rule sets: they turn events into Quality and Difficulty, or into what is derived of runs.

    Adopting one of sources permits it; promoting puts it in force. Runs have one a release.
    """


@rules_.command("list", example="ledger rules list\nledger rules list --at 2026-10-01 --json")
@at_option
@click.pass_obj
def list_(state: State, *, at: str | None) -> None:
    """List the rule sets, and what the log says of each."""
    with state.open() as ledger:
        size = size_at(ledger.reader, at)
        history = rules_history(ledger.reader, size)
    names = [*ALL_RULE_SETS, *sorted(history.sets.keys() - ALL_RULE_SETS.keys())]
    out = state.output
    if out.as_json:
        out.json([about(name, history.of(name)) | {"size": size} for name in names])
        return
    out.table(
        ["rules", "of", "digest", "adopted at", "adopted digest", "in force"],
        [_row(name, history.of(name)) for name in names],
        whole=("rules",),
    )
    out.say(f"At size {size:,}. `ledger rules show ID` says what a set is.")


@rules_.command("show", example="ledger rules show ledger-1")
@click.argument("rules", metavar="ID")
@at_option
@click.pass_obj
def show(state: State, rules: str, *, at: str | None) -> None:
    """Say what a rule set is, module by module, and since when it is adopted and in force."""
    rules_digest(rules)
    with state.open() as ledger:
        size = size_at(ledger.reader, at)
        known = rules_history(ledger.reader, size).of(rules)
    modules = _modules(rules)
    out = state.output
    if out.as_json:
        out.json(about(rules, known) | {"size": size, "about": modules[""], "modules": modules})
        return
    for line in modules.pop("").splitlines():
        out.line(line)
    out.line()
    out.pairs(_facts(rules, known))
    out.line()
    out.table(["module", "its job"], [[name, _first_sentence(text)] for name, text in modules.items()])
    out.say(f"At size {size:,}.")


@rules_.command("adopt", example="ledger rules adopt atlas-code-1 --note 'to compare with'")
@click.argument("rules", metavar="ID")
@click.option("--note", metavar="TEXT", help="Why, or on whose word; recorded.")
@dry_run_option
@click.pass_obj
def adopt(state: State, rules: str, *, note: str | None, dry_run: bool) -> None:
    """Permit a rule set of this release. Nothing is shown otherwise before it is promoted."""
    digest = rules_digest(rules)
    with state.open() as ledger:
        known = rules_history(ledger.reader, ledger.reader.info().size).of(rules)
        if known.adopted is not None and known.adopted_digest == digest:
            planned = Publication(summary=f"{rules} is adopted already, since position {known.adopted.pos}")
        else:
            payload = made(RulesAdopted, rules=rules, digest=digest, note=note)
            event = draft("rules.adopted", RULES_STREAM, payload, by=state.by)
            planned = Publication(closing=event, summary=f"adopt {rules} with the digest {digest}")
        (show_plan if dry_run else publish)(state, ledger, [planned])


def about(rules: str, known: RuleSetHistory) -> dict[str, Any]:
    """A rule set as `--json` has it; its digest is null where this release does not carry it."""
    return {
        "rules": rules,
        "of": _of(rules),
        "digest": _digest(rules),
        "adopted": known.adopted and known.adopted.to_dict(),
        "adopted_digest": known.adopted_digest,
        "promoted": [moment.to_dict() for moment in known.promoted],
        "in_force": known.in_force or rules == DEFAULT_RUN_RULES,
    }


def _digest(rules: str) -> str | None:
    return rules_digest(rules) if rules in ALL_RULE_SETS else None


def _of(rules: str) -> str:
    """What it folds. A set that this release does not carry was adopted, as only those of sources are."""
    return "runs" if rules in RUN_RULE_SETS else "sources"


def _row(rules: str, known: RuleSetHistory) -> list[Cell]:
    digest = _digest(rules)
    return [
        rules,
        _of(rules),
        digest[:16] if digest else "not carried",
        known.adopted.pos if known.adopted else "-",
        known.adopted_digest[:16] if known.adopted_digest else "-",
        _standing(rules, known),
    ]


def _standing(rules: str, known: RuleSetHistory) -> str:
    return "in every log, without adoption" if rules == DEFAULT_RUN_RULES else in_force(known)


def in_force(known: RuleSetHistory) -> str:
    """Since which size, and since which ones before."""
    sizes = [f"{moment.pos + 1:,}" for moment in known.promoted]
    if not sizes:
        return "no"
    if not known.in_force:
        return f"no; once since size {', '.join(sizes)}"
    earlier = f", before that since size {', '.join(sizes[:-1])}" if sizes[:-1] else ""
    return f"since size {sizes[-1]}{earlier}"


def _facts(rules: str, known: RuleSetHistory) -> list[tuple[str, Cell]]:
    promotions = ", ".join(f"{m.pos} ({m.recorded_at})" for m in known.promoted)
    return [
        ("rules", rules),
        ("of", _of(rules)),
        ("digest", _digest(rules)),
        ("adopted", f"at position {known.adopted.pos} ({known.adopted.recorded_at})" if known.adopted else "no"),
        ("adopted digest", known.adopted_digest or "-"),
        ("promoted at", promotions or "never"),
        ("in force", _standing(rules, known)),
    ]


def _modules(rules: str) -> dict[str, str]:
    """What the set's modules say of themselves; the set itself stands under the empty name."""
    package = importlib.import_module(type(ALL_RULE_SETS[rules]).__module__.rpartition(".")[0])
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    documents = {name: importlib.import_module(f"{package.__name__}.{name}").__doc__ for name in names}
    return {"": _text(package.__doc__), **{name: _text(document) for name, document in documents.items()}}


def _text(document: str | None) -> str:
    return (document or "").strip()


def _first_sentence(text: str) -> str:
    """The first line: what a module opens with is its one job."""
    return " ".join(text.partition("\n\n")[0].split())
