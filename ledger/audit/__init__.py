"""Questions over history, each at explicit coordinates that the answer echoes.

`coordinates` says where an answer stands, `states` what is shown there, from rows or folded from the log, `listings`
what a list is picked by. A question is a module over these: `sources`, `judgments` (with `agreement`), `timeline`,
`diff`, `why`, `queue`. Those about runs stand together in `run_questions`: `runs`, `run_lists`, `steps`, `sweeps` (with
`likeness`), `lineage` (over `run_graph`), `blast`, `turned`, `checks`. Whatever is kept in memory here can be thrown
away: it is read from the log again.
"""
