"""Between the ledger and what others write: adapters read other programs' files or hooks, and make events of them.

They stand on the SDK and the vocabulary alone, never on the server or the command, so that they run where trainers run.
"""
