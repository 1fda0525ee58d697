"""From an error that nobody caught to a finding: what PyTorch or a library said in its own words about where tensors
are, at which line of the program, on which tensors.

Says what is known and blames nobody where the tensors can't be read. Runs nothing of the program; the words of an error
are asked for as Python itself asks for them.
"""

from __future__ import annotations

import ast
import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from locus import faults
from locus.blame import findings
from locus.program import places, source, values
from locus.watch import asked, error_chain, handlers, messages, out_of_memory, refusals, tracebacks

if TYPE_CHECKING:
    import types

    import torch

    from locus.program import shapes
    from locus.program.shapes import Case, FoundOperand


_MOST_OPERANDS = 12
_OWN = "the program itself refuses what it was given"
_TRACEBACK = "Traceback (most recent call last)"
_OTHERS = (LookupError, AttributeError, ImportError, NameError, OSError, SyntaxError, UnicodeError, MemoryError)
"""Errors that quote what the program has: a key, a path. They are never about devices."""


class About(NamedTuple):
    """A finding, or a case that the engine makes findings of. Holds nothing of the program."""

    is_case: bool
    data: shapes.Finding | Case

    @property
    def line(self) -> tuple[str, int]:
        """The line of the program where the error came from."""
        use = self.data["use"] if self.is_case else self.data["uses"][0]  # type: ignore[typeddict-item]  # by is_case
        return use["file"], use["line"]


def about(error: BaseException) -> About | None:
    """What there is to say about an error that nobody caught; None where no tensor's place is the matter."""
    if not isinstance(error, Exception):
        return None
    for one in reversed(chain(error)):  # the first of them is what all the others pass on
        if out_of_memory.is_one(one):
            return _of_memory(one, error)
        text = "" if isinstance(one, _OTHERS) else _words(one)
        said = messages.read(_spoken(text)) or _by_its_condition(one, text)
        if said is not None:
            return _described(said, text, one, error)
    return None


def _by_its_condition(error: BaseException, text: str) -> messages.Said | None:
    """An error that is raised where tensors' devices differ is about devices, whatever it says."""
    frames = tracebacks.traceback_frames(error)
    try:
        return messages.any_words(text) if frames and asked.refuses_places(frames[0]) else None
    except Exception as fault:
        faults.note("the condition of an error", fault)
        return None


def _of_memory(error: BaseException, last: BaseException) -> About | None:
    frames = tracebacks.traceback_frames(error) or tracebacks.traceback_frames(last)
    try:
        found = out_of_memory.of_error(error, frames)
    except Exception as fault:
        faults.note("an error about memory", fault)
        return None
    return None if found is None else About(False, found)


def chain(error: BaseException) -> list[BaseException]:
    """An error and those behind it that it passes on: causes, members of a group, and what it was raised in place of.
    One that was caught, and that another error only came after, is not among them."""

    def behind(one: BaseException) -> list[object]:
        passed_on: list[object] = [one.__cause__, *getattr(one, "exceptions", ())]
        if one.__cause__ is None and one.__context__ is not None and not _is_done_with(one.__context__, one):
            passed_on.append(one.__context__)
        return passed_on

    return error_chain.walk(error, behind)


def _is_done_with(first: BaseException, then: BaseException) -> bool:
    """Whether a handler caught the first error, and the other one came from something that it did afterwards."""
    caught, innermost = first.__traceback__, then.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if caught is None or innermost is None or innermost.tb_frame is caught.tb_frame:
        return False  # raised in the handler itself: the same trouble in other words
    return is_caught(first)


def is_caught(error: BaseException) -> bool:
    """Whether a handler has got the error where it has come to: else it is on its way through a `finally`."""
    here = error.__traceback__
    if here is None:
        return False
    at = tracebacks.FrameAt(here.tb_frame, here.tb_lasti, here.tb_lineno)
    return handlers.catches(cast("types.FrameType", at), type(error))


def _words(error: BaseException) -> str:
    """What an error says; "" where it can't say it."""
    try:
        return messages.without_frames(str(error))
    except Exception:
        return ""


def _spoken(text: str) -> str:
    """The sentences in a text that may hold a whole traceback: not the lines of source in it."""
    if _TRACEBACK not in text:
        return text
    return "\n".join(line for line in text.splitlines() if not line.startswith((" ", "\t")))


def _described(said: messages.Said, text: str, error: BaseException, last: BaseException) -> About | None:
    """The best that can be said: a case for blame where the tensors can be read, else the words and the line."""
    from locus.watch import explaining, forked

    frames = tracebacks.traceback_frames(error) or tracebacks.traceback_frames(last)
    is_told = _TRACEBACK in text  # by another process or thread; the frames here are those of who passes it on
    try:
        if said.kind == "fork":
            case = forked.make_case(text, 0)
            return About(True, case if case["use"]["line"] else explaining.forked_case(text, frames))
        if not is_told and frames:
            known = explaining.describe(said, text, frames)
            if known is not None and _is_placed(About(*known)):
                return About(*known)
    except Exception as fault:
        faults.note("an error that nobody caught", fault)
    return None if said.kind in refusals.OF_SHARDING else _plain(said, text, frames, is_told)


def _is_placed(known: About) -> bool:
    return bool(known.line[1])


def _plain(said: messages.Said, text: str, frames: list[types.FrameType], is_told: bool) -> About:
    """What was said, where, and which tensors the call had."""
    from locus.watch import explaining, forked

    users = places.user_frames(frames)
    use = places.frame_location(users[0]) if users else places.unknown_location()
    library = places.frame_location(frames[0]) if frames and users and frames[0] is not users[0] else None
    operands: list[FoundOperand] = []
    op = ""
    if is_told:
        told, inside = forked.innermost(text)
        use, library = (told, inside) if told["line"] else (use, library)
    elif users:
        try:
            op = explaining.operator_at(users[0])
            operands = _operands(users[0])
        except Exception as fault:
            faults.note("the operands of an error", fault)
    spoken = _spoken(text)
    sentence = next((line for line in spoken.splitlines() if said.match[0].partition("\n")[0] in line), spoken)
    is_own = bool(users) and frames[0] is users[0] and not is_told and asked.refusing(frames[0]) is not None
    why = _why(_OWN if is_own else f"{_who((library or use)['file'])} refused the call in words of its own", operands)
    found = findings.make("other", messages.quoted(sentence), why, use, op=op, operands=operands)
    if library is not None:
        found["uses"][0]["library"] = library
    return About(False, found)


def _why(who: str, operands: list[FoundOperand]) -> str:
    why = f"{who}, and nothing in the program catches the error"
    places_of = [f"`{one['name']}` is on {one['device']}" for one in operands if one["name"]]
    return f"{why}; {', '.join(places_of)}" if places_of else why


def _who(file: str) -> str:
    """Who raised an error in a line of this file: a package by its name. A call out of the program's own line went into
    C++, and that is PyTorch's for all we know."""
    kind = places.kind_of_file(file) if file else "torch"
    if kind != "installed":
        return "PyTorch"
    parts = file.replace(os.sep, "/").split("/")
    folders = [number for number, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    inside = parts[folders[-1] + 1 :] if folders else parts[-2:]
    return inside[0].removesuffix(".py") if inside else "a library"


def _operands(frame: types.FrameType) -> list[FoundOperand]:
    """The tensors that the program's line hands to the call, as far as its text tells them."""
    from locus.program import expressions

    file = source.load(frame.f_code.co_filename)
    node = file.at(*places.positions(frame.f_code, frame.f_lasti)) if file is not None else None
    if file is None or node is None or isinstance(file.statement(node), ast.Raise):
        return []
    listed: dict[int, FoundOperand] = {}
    for part in expressions.parts(node):
        value = values.evaluate(part, frame)
        for name, tensor in _tensors(file.flat(part), value):
            if len(listed) < _MOST_OPERANDS:
                with contextlib.suppress(Exception):  # a tensor subclass may refuse anything
                    listed.setdefault(id(tensor), findings.operand(tensor, name, "variable", False))
    return list(listed.values())


def _tensors(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors in a value of the program, and what the program would call them."""
    if values.is_tensor(value):
        return [(name, value)]
    if values.is_module(value):
        return [(f"{name}.{inner}", tensor) for inner, tensor, _ in findings.named(value)]
    if type(value) in (list, tuple):
        return [found for number, item in enumerate(value) for found in _tensors(f"{name}[{number}]", item)]
    return []
