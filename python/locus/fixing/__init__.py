"""Edits: how a program is to be changed, and whether the change helps."""
