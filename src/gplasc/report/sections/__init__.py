"""What the page says about runs: one file a topic, from panels to figures and tables."""
