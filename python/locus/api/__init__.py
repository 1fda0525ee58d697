"""What `import locus` offers: simulate, guard, explain, where, history, place, ledgers and policies."""
