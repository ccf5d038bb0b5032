"""Many runs: the axes of a sweep, the jobs, the executor that computes them, and an overview of their progress."""
