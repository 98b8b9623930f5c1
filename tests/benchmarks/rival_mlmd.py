"""Driver of ml-metadata on a SQLite file: put_artifacts of so many records a call, each with its text as a property.

python -m tests.benchmarks.rival_mlmd FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from ml_metadata.metadata_store import metadata_store  # type: ignore[import-not-found]  # in an environment of its own
from ml_metadata.proto import metadata_store_pb2  # type: ignore[import-not-found]  # in an environment of its own


def main(folder: str) -> None:
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(Path(folder) / "mlmd.db")
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    store = metadata_store.MetadataStore(config)
    kind = metadata_store_pb2.ArtifactType(name="Record")
    kind.properties["body"] = metadata_store_pb2.STRING
    type_id = store.put_artifact_type(kind)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps({"seconds": measure(store, type_id, **asked)}), flush=True)


def measure(store: Any, type_id: int, records: int, text: str, batch: int) -> float:
    made = [record(type_id, f"{text}{n}") for n in range(records)]
    started = time.perf_counter()
    stored = [i for at in range(0, records, batch) for i in store.put_artifacts(made[at : at + batch])]
    seconds = time.perf_counter() - started
    if len(set(stored)) != records:
        raise RuntimeError(f"ml-metadata stored {len(set(stored))} of {records} records")
    return seconds


def record(type_id: int, text: str) -> Any:
    made = metadata_store_pb2.Artifact(type_id=type_id, uri="bench://record")
    made.properties["body"].string_value = text
    return made


if __name__ == "__main__":
    main(*sys.argv[1:])
