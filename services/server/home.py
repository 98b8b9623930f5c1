"""The home: one folder, held by one process at a time.

The lock file is locked by the kernel for as long as the holder lives, so a killed holder leaves nothing to clean up. A
server that holds the home also writes its address beside it; the address of a dead server is never believed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from ledger.core.errors import InvalidInput, LedgerError

LOCK_WAIT_SECONDS: Final = 10.0
"""A command waits so long for another one to be done."""
GLANCE_SECONDS: Final = 1.0
"""Who wants it for long only waits for those who look whether it is held, or are about to say where they listen."""
_LOOK_SECONDS: Final = 0.05


@contextmanager
def held(home: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Holds the home.

    Raises:
        InvalidInput: reason USAGE, if the folder cannot be made or written.
        LedgerError: reason IN_USE, with the holder's address when it is a server.
    """
    make(home)
    handle = _lock_file(home)
    try:
        _lock(handle, home, wait)
        (home / "server.json").unlink(missing_ok=True)
        yield
        (home / "server.json").unlink(missing_ok=True)
    finally:
        os.close(handle)


def make(home: Path) -> None:
    """Makes the folder, unless it is there.

    Raises:
        InvalidInput: reason USAGE, if it cannot be.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_home(home, "made", error) from None


def announce(home: Path, address: str) -> None:
    """Tells other commands where the holder of the home listens."""
    temporary = home / "server.json.new"
    temporary.write_bytes(orjson.dumps({"address": address, "pid": os.getpid()}))
    temporary.replace(home / "server.json")


def server_address(home: Path) -> str | None:
    """The address of the server that holds the home; None when nobody does, or no server."""
    if not (home / "lock").exists():
        return None
    handle = os.open(home / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _announced(home)
    finally:
        os.close(handle)
    return None


def _announced(home: Path) -> str | None:
    try:
        address = orjson.loads((home / "server.json").read_bytes())["address"]
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError):
        return None
    return str(address)


def _lock_file(home: Path) -> int:
    try:
        return os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _no_home(home, "written", error) from None


def _no_home(home: Path, what: str, error: OSError) -> InvalidInput:
    return InvalidInput(
        f"the home {home} cannot be {what}: {error.strerror}",
        reason="USAGE",
        remedy="Give another folder with --home or LEDGER_HOME.",
    )


def _lock(handle: int, home: Path, wait: float) -> None:
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            address = _announced(home)
            if address is not None or time.monotonic() >= until:
                raise _in_use(home, address) from None
            time.sleep(_LOOK_SECONDS)
        else:
            return


def _in_use(home: Path, address: str | None) -> LedgerError:
    who = f"a server at {address}" if address else "another command"
    return LedgerError(
        f"the home {home} is held by {who}",
        reason="IN_USE",
        remedy="Use that server, or stop it first." if address else "Wait until it is done, then try again.",
        details={"address": address or ""},
    )
