"""Kill, mutate and race the library, and count what happens.

`python -m torture` runs the long form and writes a table of counts as JSON; `tests/torture` runs a short one.
Everything is seeded. No time limit depends on how busy the computer is: CPU time is limited, not wall time.
"""
