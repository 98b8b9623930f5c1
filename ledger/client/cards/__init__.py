"""Model cards that are derived from what was recorded: `model_card` composes them, the others write a section each."""
