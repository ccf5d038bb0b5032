"""Tuning: a search for settings with Optuna, on a validation split."""
