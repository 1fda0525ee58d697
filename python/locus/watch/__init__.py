"""What is seen while a program runs: hooks, refusals, uncaught errors, and what the bridge asks."""
