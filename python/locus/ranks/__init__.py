"""A check of a distributed program: what is looked at because a process is one of several ranks."""
