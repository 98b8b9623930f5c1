"""A signature holds for exactly the files that were exported, and the receipt is one of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from ledger.client.exports.places import place
from ledger.core.errors import Broken, InvalidInput
from services.exporter import signatures
from services.exporter.checkpoints import read_source
from services.exporter.exporting import RECEIPT, Export, Request
from tests.exporter.checkpoints import checkpoint

RECEIPT_SAYS = dict.fromkeys(
    ("origin", "root_hash", "require", "passed", "size", "recorded_at", "rules", "rules_digest", "policy_size")
) | {"format": "atlas-ledger/consumption-receipt/1", "verdicts": []}


def write_keys(folder: Path, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> tuple[Path, Path]:
    private, public = folder / "key.pem", folder / "pub.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return write_keys(tmp_path, ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    path = tmp_path / "consumption.json"
    path.write_text(json.dumps(RECEIPT_SAYS))
    return path


@pytest.fixture
def signed(tmp_path, keys, receipt) -> tuple[Path, Path]:
    """The export and its signature."""
    done = Export(
        read_source(checkpoint(tmp_path)), Request(to=str(tmp_path / "out"), key=keys[0], receipt=receipt)
    ).run()
    assert done.signature == tmp_path / "out.sig"
    return tmp_path / "out", done.signature


def test_it_holds_and_covers_the_receipt(signed, keys, receipt):
    folder, signature = signed
    assert (folder / RECEIPT).read_bytes() == receipt.read_bytes()
    signatures.verify(place(folder), keys[1], signature)
    (folder / RECEIPT).write_text(json.dumps({**RECEIPT_SAYS, "passed": True}))
    with pytest.raises(Broken, match=f"Hash mismatch for '{RECEIPT}'"):
        signatures.verify(place(folder), keys[1], signature)


def test_it_holds_for_a_copy_elsewhere(signed, keys, tmp_path):
    shutil.copytree(signed[0], tmp_path / "elsewhere/out")
    signatures.verify(place(tmp_path / "elsewhere/out"), keys[1], signed[1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda f: (f / "config.json").write_text("{}"), "Hash mismatch for 'config.json'"),
        (lambda f: (f / "tokenizer.json").unlink(), "Missing files"),
        (lambda f: (f / "extra.safetensors").write_bytes(b"x"), "Extra files"),
    ],
    ids=["changed", "removed", "added"],
)
def test_it_does_not_hold_for_other_files(signed, keys, change, why):
    change(signed[0])
    with pytest.raises(Broken, match=why):
        signatures.verify(place(signed[0]), keys[1], signed[1])


def test_it_does_not_hold_for_another_key(signed, tmp_path):
    (tmp_path / "other").mkdir()
    _, public = write_keys(tmp_path / "other", ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(Broken, match="does not hold"):
        signatures.verify(place(signed[0]), public, signed[1])


def test_a_damaged_signature_does_not_hold(signed, keys):
    signed[1].write_text("{}")
    with pytest.raises(Broken, match="does not hold"):
        signatures.verify(place(signed[0]), keys[1], signed[1])


def test_what_lies_in_a_store_is_verified_too(tmp_path, keys, s3):
    request = Request(to=f"{s3}/signed/out", key=keys[0], signature=tmp_path / "out.sig")
    done = Export(read_source(checkpoint(tmp_path)), request).run()
    assert done.signature == tmp_path / "out.sig"
    signatures.verify(place(done.location), keys[1], done.signature)
    place(done.location).put("config.json", b"{}")
    with pytest.raises(Broken, match=r"config\.json"):
        signatures.verify(place(done.location), keys[1], done.signature)


def test_a_signature_in_a_store_needs_a_name(tmp_path, keys, s3):
    work = Export(read_source(checkpoint(tmp_path)), Request(to=f"{s3}/nameless", key=keys[0]))
    with pytest.raises(InvalidInput, match="where is the signature"):
        work.run()
    assert place(f"{s3}/nameless").names() == []


class TestKeys:
    def refused(self, tmp_path: Path, key: object) -> str:
        private, _ = write_keys(tmp_path, key)
        work = Export(read_source(checkpoint(tmp_path)), Request(to=str(tmp_path / "out"), key=private))
        with pytest.raises(InvalidInput) as caught:
            work.run()
        assert not (tmp_path / "out").exists()
        assert "prime256v1" in caught.value.remedy
        return caught.value.message

    def test_ed25519_is_refused_with_what_to_do(self, tmp_path):
        told = self.refused(tmp_path, ed25519.Ed25519PrivateKey.generate())
        assert "a key of the kind Ed25519; model signatures take elliptic curves alone" in told

    def test_another_curve_is_refused(self, tmp_path):
        assert "its curve is secp256k1" in self.refused(tmp_path, ec.generate_private_key(ec.SECP256K1()))

    def test_what_is_no_key_is_refused(self, tmp_path):
        (tmp_path / "key.pem").write_text("no key")
        with pytest.raises(InvalidInput, match="it is no private key in PEM"):
            signatures.check_key(tmp_path / "key.pem", public=False)

    def test_an_encrypted_key_is_refused(self, tmp_path):
        key = ec.generate_private_key(ec.SECP256R1())
        hidden = serialization.BestAvailableEncryption(b"secret")
        (tmp_path / "key.pem").write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        )
        with pytest.raises(InvalidInput, match="it is encrypted"):
            signatures.check_key(tmp_path / "key.pem", public=False)


def test_what_is_no_receipt_is_not_exported(tmp_path):
    (tmp_path / "receipt.json").write_text("{}")
    work = Export(
        read_source(checkpoint(tmp_path)), Request(to=str(tmp_path / "out"), receipt=tmp_path / "receipt.json")
    )
    with pytest.raises(InvalidInput, match="consumption receipt"):
        work.run()
    assert not (tmp_path / "out").exists()
