"""From scores to the accuracy matrix, from the matrix to metrics, and the geometry of the features."""
