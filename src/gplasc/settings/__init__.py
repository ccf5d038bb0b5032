"""Frozen typed settings, presets as data, and parsing."""
