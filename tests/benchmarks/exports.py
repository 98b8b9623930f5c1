"""What an export costs beside a bare copy and beside torch's own writer, and a check beside reading the files.

    python tests/benchmarks/exports.py                 # two or three minutes on an idle machine
    python tests/benchmarks/exports.py --quick         # everything once, small: does it run? Its numbers mean nothing

    copy      the checkpoint's weights, read and written again with fsync: what the disk allows
    torch     torch.distributed.checkpoint's HuggingFaceStorageWriter of the same save, in the same process: it hashes
              nothing, checks nothing, and compares nothing
    export    the exporter: digest before, conversion, nine checks, every tensor compared, published, digests read back
    hash      SHA-256 over all files of the export: what checking it by digests costs at least
    verify    the checks by headers

All read files that are in the page cache. Ratios are taken inside a round.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from transformers import Qwen3Config, Qwen3ForCausalLM

from ledger.client.exports.checks import check_export
from ledger.client.exports.places import place
from services.exporter.checkpoints import read_source
from services.exporter.exporting import Export, Request
from tests.benchmarks.report import Spread
from tests.exporter.checkpoints import save, seal, side_files, weights

COPY, TORCH, EXPORT, HASH, VERIFY = "copy", "torch", "export", "hash", "verify"
RATIOS: Final = ((EXPORT, COPY), (EXPORT, TORCH), (VERIFY, HASH))
_CHUNK: Final = 1 << 22

Rounds = list[dict[str, float]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        checkpoint = make(Path(folder), hidden=64 if options.quick else 768, layers=2 if options.quick else 12)
        size = sum(path.stat().st_size for path in (checkpoint / "weights").iterdir())
        rounds = [measured(checkpoint, Path(folder) / f"round-{n}") for n in range(1 if options.quick else 5)]
    print(render(rounds, size))
    if options.json is not None:
        options.json.write_text(json.dumps({"bytes": size, "rounds": rounds}))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small round")
    parser.add_argument("--data", type=Path, help="a folder for what is written; it is left as it was")
    parser.add_argument("--json", type=Path, help="write every time there")
    return parser.parse_args(arguments)


def make(root: Path, *, hidden: int, layers: int) -> Path:
    """A checkpoint of the trainer's layout, without an optimizer's state: only weights are exported."""
    config = Qwen3Config(
        vocab_size=hidden * 32, hidden_size=hidden, intermediate_size=hidden * 3, num_hidden_layers=layers,
        num_attention_heads=hidden // 32, num_key_value_heads=hidden // 64, head_dim=32, max_position_embeddings=128,
        tie_word_embeddings=True, dtype=torch.float32, architectures=["Qwen3ForCausalLM"],
    )  # fmt: skip
    folder = root / "global_step_40"
    save(weights(Qwen3ForCausalLM(config)), folder / "weights")
    side_files(folder / "huggingface")
    config.save_pretrained(folder / "huggingface")
    (folder / "trainer_state.json").write_text(
        json.dumps({"schema_version": 1, "run_id": "r", "attempt": 1, "step": 40})
    )
    return seal(folder)


def measured(checkpoint: Path, folder: Path) -> dict[str, float]:
    """Seconds of each in one round."""
    folder.mkdir()
    exported = folder / "exported"
    found = {
        COPY: timed(lambda: copied(checkpoint / "weights", folder / "copy")),
        TORCH: timed(lambda: by_torch(checkpoint / "weights", folder / "torch")),
        EXPORT: timed(lambda: Export(read_source(checkpoint), Request(to=str(exported))).run()),
        HASH: timed(lambda: [hashed(path) for path in exported.iterdir()]),
        VERIFY: timed(lambda: check_export(place(exported))),
    }
    shutil.rmtree(folder)
    return found


def timed(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def copied(source: Path, to: Path) -> None:
    to.mkdir()
    for path in source.iterdir():
        with path.open("rb") as read, (to / path.name).open("wb") as written:
            while chunk := read.read(_CHUNK):
                written.write(chunk)
            written.flush()
            os.fsync(written.fileno())


def by_torch(source: Path, to: Path) -> None:
    """As `dcp_to_torch_save` reads, and as torch writes for Hugging Face."""
    held = dcp.FileSystemReader(source).read_metadata().state_dict_metadata
    state = {name: torch.empty(entry.size, dtype=entry.properties.dtype) for name, entry in held.items()}
    dcp.load(state, checkpoint_id=source, no_dist=True)
    writer = HuggingFaceStorageWriter(path=str(to), fqn_to_index_mapping=dict.fromkeys(state, 1))
    dcp.save(state, storage_writer=writer, no_dist=True)


def hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def ratio(rounds: Rounds, over: str, under: str) -> Spread | None:
    return Spread.of(each[over] / each[under] for each in rounds)


def render(rounds: Rounds, size: int) -> str:
    lines = [f"{size:,} bytes of weights, {len(rounds)} rounds: median (lowest-highest)"]
    for what in (COPY, TORCH, EXPORT, HASH, VERIFY):
        spread = Spread.of(each[what] for each in rounds)
        assert spread is not None
        lines.append(f"{what:8} {spread.text(4)} s")
    for over, under in RATIOS:
        found = ratio(rounds, over, under)
        assert found is not None
        lines.append(f"{over} over {under}: {found.text(3)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
