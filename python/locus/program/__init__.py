"""What a program is: its sources, frames, names and values. Imports none of the packages beside it."""
