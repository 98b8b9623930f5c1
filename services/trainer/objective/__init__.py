"""The formulas of the objective: pure functions of tensors, each with its reference beside its tests."""
