"""Questions over history, each at explicit coordinates that the answer echoes."""
