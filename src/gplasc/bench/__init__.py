"""`gplasc bench`: how close the library is to its limits, as ratios measured in one process."""
