"""HTTP as the engine needs it: a JSON answer from one server, with few retries and no secrets in what is told.

A connection that is refused or breaks off is tried again: the requests that are sent here may be repeated, since a
seed stands in each. An answer is never asked for twice, whatever its status, and neither is one that came too late.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from ledger.core.errors import InvalidInput, LedgerError, Unavailable

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of an answer."""
PAUSES: Final = (0.2, 0.8, 3.2)
"""Seconds before each further try."""


def key_from(variable: str | None) -> str | None:
    """The server's key from the environment, where the settings name a variable.

    Raises:
        LedgerError: reason NOT_PERMITTED, if it is not set.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key or not key.isascii() or not key.isprintable():
        raise LedgerError(
            f"`rollouts.api_key_env` names {variable}, which is not set or holds no key",
            reason="NOT_PERMITTED",
            remedy=f"Set {variable} to the server's key.",
        )
    return key


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status == 200  # the one status with which all of it is there

    def json(self) -> Any:
        """What it holds; null if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def error_type(self) -> str:
        """The type of an error as the server calls it, or by its status."""
        said = self.json()
        error = said.get("error") if isinstance(said, dict) else None
        kind = error.get("type") if isinstance(error, dict) else None
        return kind[:100] if isinstance(kind, str) and kind.isidentifier() else f"HTTP{self.status}"


class Calls:
    """Calls to one server, from any thread.

    Args:
        url: Its address, without /v1.
        key: Sent as a bearer token.
        timeout: Seconds for which an answer is waited for.
        pauses: Seconds before each further try of a connection.
    """

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 1800.0, pauses: tuple[float, ...] = PAUSES
    ) -> None:
        scheme, self._host, self._port, self._path = _parts(url)
        self.place = f"{scheme}://{self._host}" + (f":{self._port}" if self._port else "")
        self._connect = HTTPSConnection if scheme == "https" else HTTPConnection
        self._headers = {"Accept": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        self._timeout = timeout
        self._pauses = pauses
        self._lock = threading.Lock()
        self._open: set[HTTPConnection] = set()
        self._aborted = 0

    def abort(self) -> None:
        """Breaks off the calls that are on their way. Later ones are made as ever."""
        with self._lock:
            self._aborted += 1
            for connection in self._open:
                if connection.sock is not None:
                    with suppress(OSError):  # it may be closed by now
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def get(self, path: str) -> Answer:
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self._call("POST", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> Answer:
        """Raises Unavailable, the cause of which is the failure of the last try."""
        begun = self._aborted
        for pause in (*self._pauses, None):
            try:
                return self._once(method, path, body, begun)
            except (OSError, HTTPException) as error:
                # A timeout is an OSError too, and the server may well be at work still.
                if pause is None or isinstance(error, TimeoutError) or self._aborted != begun:
                    raise Unavailable(
                        f"{self.place} does not answer: {type(error).__name__}",
                        remedy="Look whether the server runs, and at its log.",
                        details={"error": type(error).__name__},
                    ) from error
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, path: str, body: bytes | None, begun: int) -> Answer:
        connection = self._connect(self._host, self._port, timeout=self._timeout)
        with self._lock:
            self._open.add(connection)
        try:
            connection.connect()
            if self._aborted != begun:
                raise ConnectionAbortedError
            headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
            connection.request(method, self._path + path, body=body, headers=headers)
            answer = connection.getresponse()
            data = answer.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise Unavailable(f"{self.place} answers with more than {MAX_BYTES:,} bytes")
            return Answer(answer.status, data)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()


def _parts(url: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port and path. What is wrong is not repeated: a password may stand in it."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.username is None:
            return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/")
    except ValueError:
        pass
    raise InvalidInput(
        "`rollouts.url` is no address of a server, or has a user in it",
        reason="USAGE",
        remedy="Name it such as http://127.0.0.1:8000, and the key's variable by `rollouts.api_key_env`.",
    )
