"""Many runs: planning, computing, and tabulating them."""
