"""Drafts that were refused: each a file of its own, with the reason and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import orjson

from ledger.client.recording import folders
from ledger.client.recording.reports import RefusedDraft
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.ids import new_id
from ledger.core.secrets import redact
from ledger.wire import log_pb2

_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def keep(folder: Path, error: LedgerError, draft: log_pb2.Draft) -> RefusedDraft:
    """Keeps a draft that the ledger refused."""
    producer = draft.producer
    shown = {
        "id": draft.id,
        "type": draft.type,
        "type_version": draft.type_version,
        "stream": draft.stream,
        "producer": {"id": producer.id, "epoch": producer.epoch, "seq": producer.seq},
        "payload": _payload(draft.payload),
    }
    return _keep(folder, error, draft.id, draft.type, shown)


def keep_unmade(folder: Path, error: LedgerError, type_: str, payload: Any) -> RefusedDraft:
    """Keeps what could not even be made a draft of, as far as it can be shown."""
    return _keep(folder, error, new_id(), type_, {"type": type_, "payload": payload})


def unforeseen(type_: str, error: Exception) -> InvalidInput:
    """The error of something that went wrong in making an event, told without the secrets that it may quote."""
    return InvalidInput(
        redact(f"{type_}: {error!r}")[0],
        remedy="Correct what was given to the recorder. The program went on without this event.",
    )


def kept(folder: Path) -> list[RefusedDraft]:
    """All that a spool's folder holds, in the order of their ids."""
    found = [(file, folders.read(file)) for file in sorted((folder / "refused").glob("*.json"))]
    return [_refused(file, said) for file, said in found if said]


def _keep(folder: Path, error: LedgerError, id_: str, type_: str, shown: dict[str, Any]) -> RefusedDraft:
    (folder / "refused").mkdir(exist_ok=True)
    file = folder / "refused" / f"{id_ if _NAME.fullmatch(id_) else new_id()}.json"
    said = error.to_dict() | {"draft_id": id_, "draft_type": type_, "draft": shown}
    folders.write(file, orjson.loads(orjson.dumps(said, default=repr, option=orjson.OPT_NON_STR_KEYS)))
    return _refused(file, said)


def _refused(file: Path, said: dict[str, Any]) -> RefusedDraft:
    id_, type_, *why = (str(said.get(k, "")) for k in ("draft_id", "draft_type", "reason", "message", "remedy"))
    reason, message, remedy = why
    return RefusedDraft(id_, type_, reason, message, remedy, file)


def _payload(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")
