"""The `ledger` command.

main, options         the tree of commands, and the shape that all of them share
settings, state       what a run was told, and by whom
backend               how a command reaches its ledger
output, tables, words what is printed, how it fits a terminal, and in which words
publishing, preview   what is appended, and what would come of it
republishing, listing what the ledger has of it already
commands              one module a noun
"""
