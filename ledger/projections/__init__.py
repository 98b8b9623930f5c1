"""Derived state as interval rows, so that now and then are the same query.

What is pure stands first: `folding` has the steps, `environments` and `disregards` what touches many sources,
`timelines` a rebuild's two passes, `live` the fold as events come. `rows` reads the log, `intervals` and `generations`
hold what is written, `prefix` and `facts` answer without any of it. `following` moves a generation, `building` and
`rebuilding` make one, `choosing` and `promotions` say which one answers; `projector` does it all in one process.

`subjects` says what is projected: sources, and runs with exports and campaigns, by the same steps into the same tables.
`runs` reads what is shown of the second.
"""
