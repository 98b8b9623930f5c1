"""The database's history: one line of revisions for both dialects, applied in order, never edited."""
