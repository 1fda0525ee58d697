"""Getting in and out: running the program, its processes, its end, its report, and running it again."""
