"""An object store as a place, by fsspec: S3 and what speaks like it, and whatever else has a package for fsspec.

A store's packages raise their own errors. Here each becomes one of ours, which names the object and says what to do;
a request is never repeated here, since the packages do that themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ledger.client.exports.places import CHUNK, check_name
from ledger.core.errors import InvalidInput, LedgerError, NotFound, Unavailable
from ledger.core.secrets import redact
from ledger.core.text import harmless

_PACKAGES: Final = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_BUCKETS: Final = frozenset({"s3", "s3a", "gs", "gcs"})
"""Stores whose first part of a path must be made before anything can be put below it."""


class ObjectStore:
    """The objects directly below a URL."""

    def __init__(self, url: str) -> None:
        self._scheme, _, rest = url.partition("://")
        if "@" in rest.partition("/")[0] or "?" in rest:
            raise InvalidInput(
                f"the {self._scheme}:// place holds credentials or a query, which would be recorded with it",
                reason="USAGE",
                remedy="Give credentials in the environment, and only the bucket and the path in the URL.",
            )
        self._location = url.rstrip("/")
        self._files, self._root = _opened(self._location, self._scheme)
        self._sizes: dict[str, int] = {}
        """As the last listing told them, so that a range is one request; what is put or deleted is asked anew."""

    @property
    def location(self) -> str:
        return self._location

    def names(self) -> list[str]:
        with self._telling(None):
            try:
                found = self._files.ls(self._root, detail=True)
            except FileNotFoundError:
                self._check_bucket()
                return []
            below = f"{self._root}/"
            objects = [o for o in found if o["type"] == "file" and o["name"] not in {self._root, below}]
            self._sizes = {o["name"].removeprefix(below): int(o["size"]) for o in objects}
            return sorted(self._sizes)

    def size(self, name: str) -> int:
        with self._telling(name):
            if name not in self._sizes:
                self._sizes[name] = int(self._files.size(self._at(name)))
            return self._sizes[name]

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        with self._telling(name):
            if begin == 0 and end is None:
                return bytes(self._files.cat_file(self._at(name)))
            # A range behind the end is an error in some stores and nothing in others.
            size = self.size(name)
            end = size if end is None else min(end, size)
            return bytes(self._files.cat_file(self._at(name), start=begin, end=end)) if begin < end else b""

    def chunks(self, name: str) -> Iterator[bytes]:
        size = self.size(name)
        for begin in range(0, size, CHUNK):
            with self._telling(name):
                data = bytes(self._files.cat_file(self._at(name), start=begin, end=min(begin + CHUNK, size)))
            yield data

    def put(self, name: str, source: Path | bytes) -> None:
        self._sizes.pop(name, None)
        with self._telling(name):
            if isinstance(source, bytes):
                self._files.pipe_file(self._at(name), source)
            else:
                self._files.put_file(str(source), self._at(name))

    def delete(self, name: str) -> None:
        self._sizes.pop(name, None)
        with self._telling(name):
            try:
                self._files.rm_file(self._at(name))
            except FileNotFoundError:
                return

    def _at(self, name: str) -> str:
        return f"{self._root}/{check_name(name, self._location)}"

    def _check_bucket(self) -> None:
        """An object store has no folders, so that one which is not there is an empty one; a bucket must be there."""
        bucket = self._root.lstrip("/").partition("/")[0]
        if self._scheme in _BUCKETS and not self._files.exists(bucket):
            raise NotFound(
                f"there is no bucket {harmless(bucket)} for {self._location}",
                remedy="Make the bucket, or name one that is there and that you may list.",
                details={"place": self._location},
            )

    @contextmanager
    def _telling(self, name: str | None) -> Iterator[None]:
        """Whatever the store's packages raise is told as an error of ours."""
        where = self._location if name is None else f"{self._location}/{harmless(name[:300])}"
        try:
            yield
        except LedgerError:
            raise
        except Exception as error:  # noqa: BLE001  # each store's packages have errors of their own
            raise _told(error, where) from None


def _opened(url: str, scheme: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  # an extra

        # An instance is cached for the arguments alone, and the environment decides too; a listing would grow stale.
        files, root = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False)
    except ImportError:
        raise _missing(scheme) from None
    except Exception as error:  # noqa: BLE001  # each store's packages have errors of their own
        raise InvalidInput(
            f"{url} cannot be opened: {_said(error)}",
            reason="USAGE",
            remedy="Name a folder, or a URL such as s3://BUCKET/PATH.",
        ) from None
    return files, str(root).rstrip("/")


def _missing(scheme: str) -> LedgerError:
    package = _PACKAGES.get(scheme, "")
    install = "'atlas-ledger[objects]'" if package in {"", "s3fs"} else package
    return LedgerError(
        f"a {scheme}:// place needs {package or 'fsspec and the package of that store'}, which is not installed",
        reason="EXTRA_MISSING",
        remedy=f"Run `pip install {install}`.",
        details={"extra": "objects"},
    )


def _told(error: Exception, where: str) -> LedgerError:
    details, said = {"place": where}, _said(error)
    match error:
        case FileNotFoundError() | IsADirectoryError():
            return NotFound(f"{where} is not there: {said}", remedy="Name what is there.", details=details)
        case PermissionError():
            return LedgerError(
                f"{where} is not permitted: {said}",
                reason="NOT_PERMITTED",
                remedy="Give credentials that may read, write and list there, in the environment.",
                details=details,
            )
    if "Credentials" in type(error).__name__:
        return LedgerError(
            f"{where} needs credentials: {said}",
            reason="NOT_PERMITTED",
            remedy="Set them in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
            details=details,
        )
    return Unavailable(
        f"{where} cannot be reached: {said}",
        remedy="Check the address (AWS_ENDPOINT_URL for a store of one's own) and repeat; nothing was half written.",
        details=details,
    )


def _said(error: Exception) -> str:
    """The first line of what the store's package says, with secrets replaced."""
    text, _ = redact(str(error).strip() or type(error).__name__)
    return harmless(text.partition("\n")[0][:300])
