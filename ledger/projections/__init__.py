"""Derived state as interval rows, so that now and then are the same query.

`folding` is pure; `generations` holds the rows; `projector` keeps them at the head and builds them again.
"""
