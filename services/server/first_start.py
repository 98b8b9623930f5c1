"""The first start: what a new log says of itself before anyone else speaks.

One transaction: the signing key, the rules, the difficulty protocol, and the promotion that puts the rules in force.
Whoever starts first writes it; the others find it there. One rule set is adopted, the one that the log starts under:
the others that this release carries are for whoever answers for the log to adopt.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ledger.client.drafts import Draft, actor, draft
from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.events.administration import KeyIntroduced, ProjectionPromoted
from ledger.events.policy import ProtocolAdopted, RulesAdopted
from ledger.log.conditions import StreamVersion
from ledger.log.log import Log
from ledger.log.ports import Store
from ledger.projections.differences import EMPTY_DIFF
from ledger.projections.generations import Identity
from ledger.projections.subjects import SOURCES
from ledger.rules.atlas_page_1 import V2

SERVER_ACTOR = actor("ledger-server")


def create_log(store: Store) -> None:
    """Makes the head row, with a random origin, if there is none."""
    store.create(f"atlas-ledger-{secrets.token_hex(16)}")


def introduce(log: Log, keys: Path, identity: Identity) -> bool:
    """Writes the first events, which put rules of this identity in force; False if they are there already."""
    if log.head().size > 0:
        return False
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    name = f"{log.origin}-{sha256_hex(public)[:8]}"
    path = _save(keys, name, key)
    future = log.append(_first_drafts(name, public, identity), conditions=[StreamVersion("ledger", 0)])
    try:
        future.result()
    except LedgerError as error:
        # Only a lost race says for certain that no event names this key; otherwise it may yet be needed.
        if error.reason == "CONDITION_FAILED":
            path.unlink()
            return False
        raise
    return True


def _first_drafts(name: str, public: bytes, identity: Identity) -> list[Draft]:
    by = SERVER_ACTOR
    key = KeyIntroduced(key=name, algorithm="ed25519", public_key=public.hex())
    rules = RulesAdopted(rules=identity.rules, digest=identity.rules_digest)
    defined = draft("protocol.defined", "policy/protocols", V2, by=by)
    adopted = ProtocolAdopted(protocol=V2.protocol, definition=defined.id, replaces=None)
    promoted = ProjectionPromoted(
        projection=SOURCES.name,
        rules=identity.rules,
        rules_digest=identity.rules_digest,
        fold_digest=identity.fold_digest,
        upcaster_digest=identity.upcaster_digest,
        size=0,
        diff_digest=EMPTY_DIFF,
        moved=0,
    )
    return [
        draft("key.introduced", "ledger", key, by=by),
        draft("rules.adopted", "policy/rules", rules, by=by),
        defined,
        draft("protocol.adopted", "policy/protocols", adopted, by=by),
        draft("projection.promoted", "ledger", promoted, by=by),
    ]


def _save(keys: Path, name: str, key: Ed25519PrivateKey) -> Path:
    """The private key, readable by its owner alone, and on the disk before any event names it."""
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = keys / f"{name}.pem"
    path.touch(mode=0o600, exist_ok=False)
    with path.open("wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(keys, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path
