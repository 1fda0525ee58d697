"""The exceptions that Locus raises. Findings are data, not exceptions."""


class LocusError(Exception):
    """Base of every exception that Locus raises."""


class SetupError(LocusError):
    """Locus cannot work in this environment; the message says why and the way out."""
