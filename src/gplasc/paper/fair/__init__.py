"""Fair comparisons: both sides tuned with the same number of trials on validation, then compared on fresh seeds."""
