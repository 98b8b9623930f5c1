"""Driver of MLflow: its tracking store on SQLite within the process, no HTTP; one log_batch a message.

python -m tests.benchmarks.rival_mlflow FOLDER
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from mlflow.entities import Metric  # type: ignore[import-not-found]  # noqa: E402  # in an environment of its own
from mlflow.tracking import MlflowClient  # type: ignore[import-not-found]  # noqa: E402


def main(folder: str) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{Path(folder) / 'mlflow.db'}")
    experiment = client.create_experiment("bench", artifact_location=folder)
    for line in sys.stdin:
        asked = json.loads(line)
        run = client.create_run(experiment).info.run_id
        print(json.dumps({"seconds": measure(client, run, asked["steps"], asked["metrics"])}), flush=True)


def measure(client: MlflowClient, run: str, steps: int, metrics: int) -> float:
    batches = [[Metric(f"group/metric_{n}", n * 0.37 + s, s, s) for n in range(metrics)] for s in range(1, steps + 1)]
    started = time.perf_counter()
    for batch in batches:
        client.log_batch(run, metrics=batch)
    seconds = time.perf_counter() - started
    stored = len(client.get_metric_history(run, "group/metric_0"))
    if stored != steps:
        raise RuntimeError(f"MLflow stored {stored} of {steps} steps")
    return seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
