"""Other Pythons of this machine, for what must not depend on which one runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def interpreter(python: str) -> str | None:
    """One on the path or among those that pyenv keeps, and that runs."""
    kept = Path.home().glob(f".pyenv/versions/{python.removeprefix('python')}.*/bin/{python}")
    for found in (shutil.which(python), *sorted(map(str, kept))):
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return found
    return None
