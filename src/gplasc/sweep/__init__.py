"""Many runs on one machine: a pool of processes, an overview of the grid, and a place where a cluster can step in."""
