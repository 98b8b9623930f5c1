"""The kinds of value that payload fields hold. Each is checked alike by the slow and by the quick check."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from ledger.core import clock
from ledger.core.strictjson import MAX_INT

MAX_TEXT: Final = 200_000
"""Characters in one text field; a payload is at most 1 MiB."""


class Record(BaseModel):
    """Part of a payload: frozen, strict, and holding nothing that is not named."""

    # A value that is not finite, in a free-form part, is written by name; pydantic's own way would be null.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", ser_json_inf_nan="strings")


def _check_time(text: str) -> str:
    clock.from_text(text)
    return text


def _check_finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError('write a value that is not finite as the string "NaN", "Infinity" or "-Infinity"')
    return value


COLLECTION_TAG: Final = "collection:"
"""Begins the tag by which the parts of a collection are found; the collection's id follows."""

SAMPLE_TAG: Final = "sample"
"""On events made up for a demonstration."""

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
"""Prose or any other text; not empty."""

AnyText = Annotated[str, Field(max_length=MAX_TEXT)]
"""Text that may be empty."""

Name = Annotated[str, Field(min_length=1, max_length=512)]
"""A short name or id, as its owner writes it."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hex."""

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
"""A git commit, lower-case hex."""

Revision = Annotated[str, Field(min_length=1, max_length=256)]
"""What pins data, a verifier or code: a commit, a digest or a version."""

EventId = Annotated[str, Field(pattern=r"^[ -~]{1,512}$")]

SourceId = Annotated[str, Field(pattern=r"^[ -~]{1,500}$")]
"""An Atlas id, such as `MarinSkyRL:svamp`: printable ASCII, since it is part of a stream's name."""

CollectionId = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
"""Joins parts to their closing event; printable ASCII without space. A part carries the tag `collection:<id>` too."""

Url = Annotated[str, Field(pattern=r"^https?://[!-~]{1,2000}$")]

Timestamp = Annotated[str, AfterValidator(_check_time), Field(json_schema_extra={"format": "date-time"})]
"""A domain date in RFC 3339 with an offset. Unknown is null, never a guess."""

Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Number = Annotated[float, AfterValidator(_check_finite)]
NotFinite = Literal["NaN", "Infinity", "-Infinity"]
Metric = Number | NotFinite
"""A measured number; one that is not finite is carried by name, never dropped and never zero."""

JsonObject = dict[str, JsonValue]
"""Free-form: kept as it was written, read only by name."""

ActorKind = Literal["human", "model", "organization", "unknown"]


class Person(Record):
    """Who reviewed, published or assigned, as the document names them."""

    id: Name
    label: AnyText
    kind: ActorKind


class ArtifactRef(Record):
    """Evidence bytes in the artifact store, and the name under which they were cited."""

    name: Name
    sha256: Sha256
    size: Count | None = None
    media_type: Name | None = None


class Parts(Record):
    """The parts that a closing event closes: how many, and the digest of their ids; by id too while they are few."""

    count: Count
    digest: Sha256
    ids: Annotated[list[EventId], Field(max_length=256)] | None = None


def artifacts_in(value: Any) -> list[ArtifactRef]:
    """Every artifact that a payload cites, in order."""
    if isinstance(value, ArtifactRef):
        return [value]
    if isinstance(value, Record):
        return [ref for name in type(value).model_fields for ref in artifacts_in(getattr(value, name))]
    if isinstance(value, (list, tuple)):
        return [ref for item in value for ref in artifacts_in(item)]
    return []
