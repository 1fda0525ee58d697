"""The subcommands of `locus`. Each module has SUMMARY, configure(parser) and execute(arguments) -> exit code."""

from __future__ import annotations

COMMANDS: tuple[str, ...] = ("check", "fix", "run", "memory", "report", "codes", "doctor", "completion")
"""The subcommands, in the order in which the help shows them; each is a module of this package."""
