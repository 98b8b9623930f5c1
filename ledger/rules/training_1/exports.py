"""An export: how far it came, whether what was published is what was verified, and what contradicts what.

Verified holds for the files that were completed: completed again, they are not verified any more. What a host shows is
listed as it was observed, beside what others observed; it contradicts nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ledger.rules.training_1 import export_reading
from ledger.rules.training_1.claims import export_claims
from ledger.rules.training_1.decoding import plain
from ledger.rules.training_1.flagging import Flag, of_odd, written_flag
from ledger.rules.training_1.model import Export, Fact
from ledger.rules.training_1.remembering import remembered
from ledger.rules.training_1.selecting import basis_of

_WEIGHTS = (".safetensors", ".bin", ".safetensors.index.json")


def status_of(export: Export) -> str:
    if export.models:
        return "published" if verification(export) else "published_unverified"
    if _fails_last(export):
        return "failed"
    if verification(export):
        return "verified"
    return "completed" if _completes_last(export) else "started"


def verification(export: Export) -> Fact[export_reading.ExportVerified] | None:
    """The last one, while it is of the files that were completed last."""
    last = export.verified[-1] if export.verified else None
    return last if last is not None and last.pos > _last(export.completed) else None


def _fails_last(export: Export) -> bool:
    return _last(export.failed) > max(_last(export.started), _last(export.completed), _last(export.verified))


def _completes_last(export: Export) -> bool:
    return _last(export.completed) > _last(export.started)


def _last(facts: tuple[Fact[Any], ...]) -> int:
    return facts[-1].pos if facts else -1


def checkpoint_of(export: Export) -> export_reading.ExportedCheckpoint | None:
    return export.started[-1].said.checkpoint if export.started else None


def files_agree(export: Export, model: Fact[export_reading.ModelPublished]) -> bool | None:
    """Whether what was published is what was verified, else what was completed; None: no digests to compare."""
    checked = _files_before(export, model.pos)
    published = _digests(model.said.files)
    if not checked or not published:
        return None
    return not any(_differences(checked, published))


def _files_before(export: Export, pos: int) -> dict[str, str]:
    made: tuple[tuple[Fact[Any], ...], ...] = (export.verified, export.completed)
    found = (_digests(fact.said.files) for facts in made for fact in reversed(facts) if fact.pos < pos)
    return next((digests for digests in found if digests), {})


def _digests(files: tuple[export_reading.FileDigest, ...]) -> dict[str, str]:
    return {file.path: file.sha256 for file in files if file.sha256 is not None}


def _differences(checked: dict[str, str], published: dict[str, str]) -> Iterator[str]:
    """Other files than weights may come with the publication: a card, logs."""
    for path, digest in checked.items():
        if path not in published:
            yield f"{path} is missing"
        elif published[path] != digest:
            yield f"{path} has another digest"
    for path in published:
        if path not in checked and path.endswith(_WEIGHTS):
            yield f"{path} was not among the files checked"


# What contradicts what


@remembered
def export_flags(export: Export) -> tuple[Flag, ...]:
    found = (*_of_starts(export), *_of_files(export), *_of_models(export), *map(of_odd, export.strays))
    return tuple(sorted(found, key=lambda flag: (max(flag.positions), flag.code, flag.message)))


def _of_starts(export: Export) -> Iterator[Flag]:
    for before, after in pairwise(export.started):
        if before.said.checkpoint != after.said.checkpoint:
            message = f"the export was started from step {before.said.checkpoint.step}, then from another checkpoint"
            yield Flag("EXPORT_STARTED_OTHERWISE", message, (before.pos, after.pos))
    for done in export.completed[:1]:
        if not export.started or export.started[0].pos > done.pos:
            yield Flag("COMPLETED_WITHOUT_START", "the export was completed, and nothing says of what", (done.pos,))


def _of_files(export: Export) -> Iterator[Flag]:
    for before, after in pairwise(export.completed):
        if before.said.digest != after.said.digest:
            digests = f"{_short(before.said.digest)}, then {_short(after.said.digest)}"
            message = f"the export was completed twice, with digest {digests}"
            yield Flag("EXPORT_COMPLETED_AGAIN", message, (before.pos, after.pos))
    for done in export.completed:
        then, now = done.said.checkpoint_digest_before, done.said.checkpoint_digest_after
        if None not in {then, now} and then != now:
            message = f"exporting changed the checkpoint: its digest was {_short(then)} before and {_short(now)} after"
            yield Flag("CHECKPOINT_CHANGED_BY_EXPORT", message, (done.pos,))
        named = next((s for s in reversed(export.started) if s.pos < done.pos), None)
        digest = named.said.checkpoint.digest if named is not None else None
        if named is not None and None not in {digest, then} and digest != then:
            message = f"the export names checkpoint {_short(digest)}, and read {_short(then)}"
            yield Flag("EXPORTED_OTHER_CHECKPOINT", message, (named.pos, done.pos))
    for failure in export.failed:
        before_it = [v.pos for v in export.verified if v.pos < failure.pos]
        if failure.said.stage == "verify" and before_it:
            message = f"a verification failed after one that passed: {failure.said.reason}"
            yield Flag("VERIFICATION_FAILED_LATER", message, (before_it[-1], failure.pos))


def _of_models(export: Export) -> Iterator[Flag]:
    for model in export.models:
        said = model.said
        verified = [v.pos for v in export.verified if v.pos < model.pos]
        if not verified:
            message = f"{said.repository} was published, and no verification was recorded before"
            yield Flag("PUBLISHED_UNVERIFIED", message, (model.pos,))
        if said.commit is None:
            message = f"{said.repository} was published without a commit: what its branch shows can change"
            yield Flag("PUBLISHED_WITHOUT_COMMIT", message, (model.pos,))
        checked, published = _files_before(export, model.pos), _digests(said.files)
        differences = list(_differences(checked, published)) if checked and published else []
        if differences:
            more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
            message = f"{said.repository} holds other files than were checked: {'; '.join(differences[:3])}{more}"
            yield Flag("PUBLISHED_OTHER_FILES", message, (*verified[-1:], model.pos))


def _short(digest: str | None) -> str:
    return "unknown" if digest is None else f"{digest[:12]}…"


# As it is answered


def written_export(id_: str, export: Export, *, sample: bool) -> dict[str, Any]:
    """As `Export` in runs.proto."""
    checked = verification(export)
    started = export.started[-1] if export.started else None
    completed = export.completed[-1] if export.completed else None
    failed = export.failed[-1] if export.failed else None
    said = {
        "started": plain(started.body) if started else None,
        "checkpoint": plain(started.body)["checkpoint"] if started else None,
        "route": started.said.route if started else None,
        "started_pos": started.pos if started else None,
        "completed": plain(completed.body) if completed else None,
        "digest": completed.said.digest if completed else None,
        "completed_pos": completed.pos if completed else None,
        "verified_pos": checked.pos if checked else None,
        "numbers": plain(checked.body)["numbers"] if checked else None,
        "failed_pos": failed.pos if failed else None,
        "failure": f"{failed.said.stage}: {failed.said.reason}" if failed else None,
    }
    return {
        "id": id_,
        "status": status_of(export),
        "checks": _checks(export, checked),
        "models": [_model(export, model) for model in export.models],
        "hosting": [_hosting(fact) for fact in export.hosting],
        "claims": export_claims(export),
        "flags": [written_flag(flag) for flag in export_flags(export)],
        "basis": export_basis(export),
        "sample": sample,
        **{name: value for name, value in said.items() if value is not None},
    }


def _checks(export: Export, checked: Fact[export_reading.ExportVerified] | None) -> list[Any]:
    """Of the verification that holds; else those that failed last."""
    if checked is not None:
        return list(plain(checked.body)["checks"])
    return list(plain(export.failed[-1].body).get("failed_checks", ())) if export.failed else []


def export_basis(export: Export) -> str:
    """How its first event is known."""
    facts: tuple[Fact[Any], ...] = (*export.started, *export.completed, *export.verified, *export.models)
    return basis_of(min(facts, key=lambda fact: fact.pos).said.basis) if facts else "recorded"


def _model(export: Export, fact: Fact[export_reading.ModelPublished]) -> dict[str, Any]:
    said = plain(fact.body)
    agree = files_agree(export, fact)
    kept = ("repository", "commit", "url", "license", "base_license", "tags", "published_at")
    return {
        "pos": fact.pos,
        "basis": basis_of(fact.said.basis),
        **{name: said[name] for name in kept if said.get(name) is not None},
        **({} if agree is None else {"files_agree": agree}),
    }


def _hosting(fact: Fact[None]) -> dict[str, Any]:
    said = plain(fact.body)
    kept = ("host", "observed_at", "observations", "source_url")
    return {"pos": fact.pos, **{name: said[name] for name in kept if said.get(name) is not None}}
