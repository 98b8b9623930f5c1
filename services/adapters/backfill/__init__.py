"""Backfill: what was written before anybody recorded it, read afterwards into events.

Rules kept by every importer:

- A fact is recorded as its file has it. What a file does not say stays unknown; nothing is derived from its silence.
- Each event names its file by SHA-256 and says that it was imported. Its id is made from the run, the type, the place
  in the run and what it says, so that importing again, from a copy or from a log that has grown, records nothing twice.
- What looks like a fact and cannot be read is counted, with its place. A long log that yields nothing is an error.
- Files are hostile: no name in them is followed, nothing is unpickled or unpacked, secrets are replaced.

An importer is a function `plan_…` that reads its files once and gives an `Import`: an account of what was found, and
the drafts, in order. Nothing is sent before all was read.
"""
