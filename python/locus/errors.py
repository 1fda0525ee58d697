"""The exceptions and warnings of Locus. Findings are data, not exceptions."""


class LocusError(Exception):
    """Base of every exception that Locus raises."""


class SetupError(LocusError):
    """Locus cannot work in this environment; the message says why and the way out."""


class UsageError(LocusError):
    """Locus was asked for something it can't do; the message names the input and the way out."""


class NotSimulated(LocusError, NotImplementedError):
    """The program used a CUDA feature that the simulated devices don't have; the message says what to do instead."""


class HostMemoryError(LocusError, MemoryError):
    """This machine can't hold what the simulated devices should; the message says what is short, and the way out."""


class DryLoopError(BaseException):
    """A dry run seems to wait for a value that it does not have; the message names the line, and the way out. No
    Exception: a handler of the program would take it for an error of its own."""


class LedgerError(LocusError, AssertionError):
    """A program copied or waited where it said that it would not; the message names each line."""


class PlacementWarning(UserWarning):
    """A tensor was on the wrong device, under the policy "warn"; the message is the finding's text."""


def as_line(error: LocusError) -> str:
    """The one line that a command ends with. Messages of the C++ side may bring the name along."""
    return f"locus: error: {str(error).removeprefix('locus: ')}"
