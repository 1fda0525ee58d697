"""The frames of a traceback, as they were when the exception passed."""

from __future__ import annotations

import types
from typing import cast

from locus.program import places


class FrameAt:
    """A frame of a traceback as it was when the exception passed: a frame that has gone on is somewhere else now."""

    def __init__(self, frame: types.FrameType, instruction: int, line: int):
        self.frame, self.f_lasti, self.f_lineno = frame, instruction, line
        self.f_code, self.f_globals, self.f_builtins = frame.f_code, frame.f_globals, frame.f_builtins
        self.f_back: FrameAt | None = None

    @property
    def f_locals(self) -> dict[str, object]:
        return self.frame.f_locals


def traceback_frames(error: BaseException) -> list[types.FrameType]:
    """The frames of an exception's traceback, innermost first, without Locus's own."""
    frames: list[FrameAt] = []
    traceback = error.__traceback__
    while traceback is not None:
        frame = FrameAt(traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
        if places.kind_of_file(frame.f_code.co_filename) != "locus":
            frame.f_back = frames[-1] if frames else None
            frames.append(frame)
        traceback = traceback.tb_next
    return cast("list[types.FrameType]", frames[::-1])  # all that is asked of a frame here
