"""Verifiable tasks, behind one interface: `task_sets.TaskSet`."""
