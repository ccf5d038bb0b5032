"""Accuracy matrix, metrics of the matrix, and the geometry of the features."""
