"""How a command reaches its ledger.

A running ledger that is named is spoken to. Otherwise the home decides: a process that holds it is spoken to, and when
nobody does, the ledger runs within the command for as long as it takes. Either way a command speaks gRPC, so it behaves
the same. The server's part is loaded only when it is needed: a client's installation may lack it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.client import Connection, connect
from ledger.core.errors import LedgerError
from services.cli.settings import Settings

if TYPE_CHECKING:
    from ledger.log.fsck import FsckReport
    from services.server.settings import Settings as ServerSettings


@contextmanager
def open_connection(settings: Settings) -> Iterator[Connection]:
    """A connection to the ledger that the settings name.

    Raises:
        LedgerError: reason EXTRA_MISSING, if it would have to run here and its part is not installed.
    """
    address = settings.address or _holder(settings)
    if address is not None:
        with connect(address, timeout=settings.timeout) as connection:
            yield connection
        return
    with _server_needed(or_else=", or name a running ledger with --address"):
        from services.server import app  # noqa: PLC0415  # only where the server's extra is installed
    with ExitStack() as stack:
        try:
            own = stack.enter_context(app.in_process(server_settings(settings)))
        except LedgerError as error:
            # A server that was still starting may have come up since the look.
            own = error.details.get("address", "") if error.reason == "IN_USE" else ""
            if not own:
                raise
        yield stack.enter_context(connect(own, timeout=settings.timeout))


def server_settings(settings: Settings) -> ServerSettings:
    """The settings as the server takes them."""
    with _server_needed():
        from services.server.settings import Settings as ServerSettings  # noqa: PLC0415
    return ServerSettings(
        home=settings.home,
        db=settings.db,
        host=settings.text("host"),
        port=settings.port,
        artifacts=settings.artifacts,
        first_rules=settings.first_rules,
        log_level=settings.log_level,
    )


def _holder(settings: Settings) -> str | None:
    """The address of the process that holds the home; a database of its own is nobody's home."""
    if settings.db is not None:
        return None
    with _server_needed():
        from services.server import home  # noqa: PLC0415
    return home.server_address(settings.home)


@contextmanager
def _server_needed(*, or_else: str = "") -> Iterator[None]:
    """Says which extra to install when a package of the server's is not there, and what else would do."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"this command runs the ledger itself, and the package {error.name} is not installed",
            reason="EXTRA_MISSING",
            remedy=f"Run `pip install 'atlas-ledger[server]'`{or_else}.",
            details={"extra": "server", "package": error.name or ""},
        ) from None


def make_home(home: Path) -> None:
    """Makes a home's folder, once the server's part is known to be there."""
    with _server_needed():
        from services.server import app  # noqa: F401, PLC0415  # all of it will be needed
        from services.server import home as homes  # noqa: PLC0415
    homes.make(home)


def serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serves until it is told to stop, and then finishes what it accepted."""
    with _server_needed():
        from services.server import app  # noqa: PLC0415
    app.serve(server_settings(settings), on_ready=on_ready)


def fsck(settings: Settings) -> FsckReport:
    """Checks the store whole."""
    with _server_needed():
        from services.server import app  # noqa: PLC0415
    return app.fsck(server_settings(settings))


def schema_revision() -> str | None:
    """The revision of the database's schema that this release needs; None where the server's part is not installed."""
    try:
        from ledger.log import schema  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    return schema.newest()


def upgrade(settings: Settings) -> list[str]:
    """Brings the database to this release's schema; says what was done."""
    with _server_needed():
        from services.server import app  # noqa: PLC0415
    return app.upgrade(server_settings(settings))
