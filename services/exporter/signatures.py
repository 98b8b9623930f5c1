"""OpenSSF model signatures: one file beside an export that names every file of it by its digest, signed with a key.

The signature covers the consumption receipt where one lies in the export, so that what was known of the run's sources
cannot be taken from the model it belongs to. Keys are of an elliptic curve (P-256, P-384 or P-521): the packages that
others verify with know no Ed25519.
"""

# ruff: noqa: PLC0415  # model_signing is of an extra, and slow to import

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ledger.client.exports.places import Folder, Place
from ledger.core.errors import Broken, InvalidInput, LedgerError

PACKAGES: Final = {"model_signing": "model-signing", "OpenSSL": "pyopenssl"}
CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
_REMEDY: Final = (
    "`openssl ecparam -name prime256v1 -genkey -noout -out KEY.pem` makes a key, and `openssl ec -in KEY.pem "
)


def require() -> None:
    """Says that nothing can be signed or verified here.

    Raises:
        LedgerError: reason EXTRA_MISSING, if a package is not there.
    """
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise LedgerError(
            f"a model signature needs {', '.join(missing)}, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[signing]'`.",
            details={"extra": "signing"},
        )


def check_key(path: Path, *, public: bool) -> None:
    """Refuses a key that cannot be used, before anything else is done.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is no key of a curve that signatures are made with.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        content = path.read_bytes()
        key: Any = (
            serialization.load_pem_public_key(content)
            if public
            else serialization.load_pem_private_key(content, password=None)
        )
    except OSError as error:
        raise _bad_key(path, error.strerror or str(error)) from None
    except TypeError:
        raise _bad_key(path, "it is encrypted; a key without a password is needed") from None
    except Exception as error:  # what a damaged key raises depends on its bytes
        raise _bad_key(path, f"it is no {'public' if public else 'private'} key in PEM") from error
    if not isinstance(key, (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)):
        kind = type(key).__name__.removesuffix("PrivateKey").removesuffix("PublicKey").strip("_")
        raise _bad_key(path, f"it is a key of the kind {kind}; model signatures take elliptic curves alone")
    if key.curve.name not in CURVES:
        raise _bad_key(path, f"its curve is {key.curve.name}; model signatures take {', '.join(sorted(CURVES))}")


def sign(folder: Path, key: Path, signature: Path) -> None:
    """Signs every file of a folder; the signature must not lie in it.

    Raises:
        InvalidInput: reason INVALID_FILE, if the key cannot be used.
    """
    check_key(key, public=False)
    from model_signing import signing

    signing.Config().use_elliptic_key_signer(private_key=key).sign(folder, signature)


def verify(place: Place, public_key: Path, signature: Path) -> None:
    """Compares a place with its signature. What lies in an object store is fetched first.

    Raises:
        Broken: reason VERIFICATION_FAILED, with the files that are not as they were signed.
        InvalidInput: reason INVALID_FILE, if the key or the signature cannot be read.
    """
    check_key(public_key, public=True)
    if not signature.is_file():
        raise InvalidInput(
            f"there is no signature {signature}",
            reason="INVALID_FILE",
            remedy="Name it with --signature FILE.",
            details={"file": str(signature)},
        )
    from model_signing import verifying

    with _local(place) as folder:
        try:
            verifying.Config().use_elliptic_key_verifier(public_key=public_key).verify(folder, signature)
        except Exception as error:  # the package raises ValueError for what differs, and others for what is damaged
            why = str(error).partition("\n")[0] or type(error).__name__
            raise Broken(
                f"the signature {signature} does not hold for {place.location}: {why[:500]}",
                remedy="The files, the signature or the key are not those that belong together. Trust none of them.",
                details={"place": place.location, "signature": str(signature)},
            ) from error


@contextmanager
def _local(place: Place) -> Iterator[Path]:
    """The files of a place as a folder."""
    if isinstance(place, Folder):
        yield Path(place.location)
        return
    with tempfile.TemporaryDirectory(prefix="atlas-ledger-") as scratch:
        folder = Path(scratch) / (place.location.rpartition("/")[2] or "model")
        folder.mkdir()
        for name in place.names():
            with (folder / name).open("xb") as file:
                for data in place.chunks(name):
                    file.write(data)
        yield folder


def _bad_key(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used: {why}",
        reason="INVALID_FILE",
        remedy=f"{_REMEDY}-pubout -out PUB.pem` its public part.",
        details={"file": str(path)},
    )
