"""Callbacks: each does one thing while a learner works; `gplasc.Callback` is their base."""
