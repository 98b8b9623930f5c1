"""Trace datasets: the last episode of each trial as Parquet, with what joins a row to a training step.

places      a trainer's run folder (`trainer_runs`), a Harbor job (`harbor_files`, `trajectories`, `harbor_rows`)
rows        what a row holds, and the order of rows; `cleaning` takes secrets out of its text
accounts    how many trials came how far, and what has no row and why
datasets    the folder, whole or not at all: `shards`, `manifests`, `cards`
published   the event that says where it was published
"""
