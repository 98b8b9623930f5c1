"""Page tokens: where the first page stood, which question and filter it was of, and where the next page begins.

A token is opaque to its holder, and not trusted by us: it says only what a caller may ask anyway.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Annotated, Any, Final

import msgspec
import orjson

from ledger.audit.coordinates import At, Moment
from ledger.core.errors import InvalidInput
from ledger.core.ids import sha256_hex

MAX_PAGE: Final = 1_000
PAGE_BYTES: Final = 8 << 20
"""Of what a page is made of, about: recorded text can be long, and an answer must fit one message."""

_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
_Stand = tuple[_Number, bool, str, _Number]
"""Size, final, rules, policy size."""
_Token = tuple[str, str, Annotated[list[_Stand], msgspec.Meta(min_length=1, max_length=2)], _Number]


def page_size(asked: int) -> int:
    """How many to give: at most MAX_PAGE, also when nothing is asked."""
    return min(asked or MAX_PAGE, MAX_PAGE)


class Room:
    """What is left of a page, by number and by bytes."""

    def __init__(self, asked: int, *, limit: int = PAGE_BYTES) -> None:
        self._number = page_size(asked)
        self._bytes = limit
        self._empty = True

    def takes(self, weight: int) -> bool:
        """Puts one more of this weight on the page, if there is room; the first one always goes there."""
        if not self._empty and (self._number == 0 or weight > self._bytes):
            self._number = 0  # full is full: what comes later goes on the next page, in order
            return False
        self._empty = False
        self._number -= 1
        self._bytes -= weight
        return True


def encode_token(question: str, of: object, moments: list[Moment], start: int) -> str:
    """A token for the page of this question and filter that begins at `start`."""
    stands = [[m.size, m.final, m.rules, m.policy_size] for m in moments]
    return base64.urlsafe_b64encode(orjson.dumps([question, _digest(of), stands, start])).decode()


def decode_token(token: str, question: str, of: object, *, moments: int = 1) -> tuple[list[At], int]:
    """The coordinates of the first page, and where the next one begins.

    Raises:
        InvalidInput: if it is no token of this service, or goes with another question or filter.
    """
    try:
        asked, filtered, stands, start = msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=_Token)
    except (ValueError, binascii.Error):  # msgspec's own errors are ValueErrors
        raise _wrong("is not one of this service's") from None
    if asked != question or len(stands) != moments:
        raise _wrong("is of another question")
    if filtered != _digest(of):
        raise _wrong("goes with another filter")
    return [At(size=size, rules=rules, policy_size=policy, final=final) for size, final, rules, policy in stands], start


def _wrong(how: str) -> InvalidInput:
    return InvalidInput(
        f"the page token {how}",
        remedy="Take next_page_token from the answer before, as it is, with the same filter, or leave it out.",
    )


def _digest(of: object) -> str:
    return sha256_hex(orjson.dumps(_plain(of), option=orjson.OPT_SORT_KEYS))[:16]


def _plain(value: Any) -> Any:
    """A filter as JSON that does not depend on the order of a set."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
