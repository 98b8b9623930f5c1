"""Content-addressed evidence bytes: a folder now; an object store has the same verbs."""
