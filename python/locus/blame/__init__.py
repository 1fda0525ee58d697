"""Whose fault a mistake is: the facts that the engine decides by."""
