"""The loop and what it needs: context, probe, schedule, checkpoints, progress, runs."""
