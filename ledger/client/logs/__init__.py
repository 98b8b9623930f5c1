"""training_logs/ folders: `training_logs` writes them whole, the others a kind of file each."""
