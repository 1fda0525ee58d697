"""What PyTorch says about tensors on the wrong device: which of its sentences is which kind of mistake.

Reads words only and imports no PyTorch. A sentence alone is no proof: whoever explains an error also looks for a tensor
that is where the sentence says.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_DEVICE = r"(?:cuda|cpu|meta|mps|xpu)(?::\d+)?"


class Finding:
    """What Locus has to say about an exception. `str()` of it is the text; `data` is as in the JSON report."""

    def __init__(self, data: dict[str, Any], text: str):
        self.data, self.text = data, text

    @property
    def code(self) -> str:
        """Such as LOC003."""
        return str(self.data["code"])

    @property
    def reason(self) -> str:
        """Such as plain-attribute."""
        return str(self.data["reason"])

    @property
    def message(self) -> str:
        """One sentence."""
        return str(self.data["message"])

    @property
    def cause(self) -> dict[str, Any]:
        """The line to edit: file and line."""
        return dict(self.data["cause"])

    @property
    def culprit(self) -> dict[str, Any]:
        """The tensor: name, kind, device, expected_device."""
        return dict(self.data["culprit"])

    @property
    def fixes(self) -> list[dict[str, Any]]:
        """The edits."""
        return list(self.data["fixes"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<finding {self.code} {self.reason}: {self.message}>"


class Said(NamedTuple):
    """A sentence of PyTorch's about devices."""

    kind: str
    match: re.Match[str]

    @property
    def parts(self) -> dict[str, str]:
        """What it names: `home` where the others are, `a` and `b` devices, `op` or `function` who says it."""
        return {name: text for name, text in self.match.groupdict().items() if text}


class _Pattern(NamedTuple):
    words: re.Pattern[str]
    kind: str


def _pattern(kind: str, words: str) -> _Pattern:
    return _Pattern(re.compile(words.replace("DEVICE", _DEVICE)), kind)


_SAME = "Expected all tensors to be on the same device"

# The first that is found in a message decides.
_PATTERNS = (
    _pattern("fork", r"Cannot re-initialize CUDA in forked subprocess"),
    _pattern("operator", _SAME + r", but got \w+ is on (?P<a>DEVICE), different from other tensors on (?P<b>DEVICE) "
                         r"\(when checking argument in method wrapper_CUDA_(?P<op>\w+)\)"),
    _pattern("operator", _SAME + r", but found at least two devices, (?P<a>DEVICE) and (?P<b>DEVICE)!"
                         r"(?:.*in method wrapper_CUDA_(?P<op>\w+)\))?"),
    _pattern("operator", _SAME),
    _pattern("operator", r"Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same"),
    _pattern("operator", r"Input and (?:hidden|parameter) tensors are not at the same device, found \w+ tensor at "
                         r"(?P<a>DEVICE) and \w+ tensor at (?P<b>DEVICE)"),
    _pattern("operator", r"Expected query, key, and value to have the same device type"),
    _pattern("out", r"Expected out tensor to have device (?P<home>DEVICE), but got (?P<a>DEVICE) instead"),
    _pattern("operator", r"Tensor for .+ is on (?:CPU|GPU), but expected (?:it|them) to be on (?:CPU|GPU) "
                         r"\(while checking arguments for (?P<op>\w+)\)"),
    _pattern("operator", r"found two different devices (?P<a>DEVICE), (?P<b>DEVICE)"),
    _pattern("operator", r"params, grads, .* must have same dtype, device, and layout"),
    _pattern("index", r"indices should be either on cpu or on the same device as the indexed tensor "
                      r"\((?P<home>DEVICE)\)"),
    _pattern("lengths", r"'lengths' argument should be a 1D CPU int64 tensor"),
    _pattern("lengths", r"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on (?P<a>DEVICE)"),
    _pattern("host-access", r"can't convert (?P<a>DEVICE) device type tensor to numpy"),
    _pattern("host-access", r"^Unsupported device in DLTensor"),
    _pattern("generator", r"Expected a '(?P<home>\w+)' device type for generator but found '(?P<a>\w+)'"),
    _pattern("gradient", r"(?:Function (?P<function>\w+) returned an )?invalid gradient at index \d+ - expected device "
                         r"(?P<home>DEVICE) but got (?P<a>DEVICE)"),
    _pattern("hook", r"hook '(?P<function>.+)' has changed the type of value \(was torch\.(?P<home>cuda\.)?\w+Tensor "
                     r"got torch\.(?P<a>cuda\.)?\w+Tensor\)"),
    _pattern("assigned", r"attempting to assign a gradient (?:with device type|located on device with index)|"
                         r"assigned grad has data of a different (?:device|type)"),
    _pattern("module", r"module must have its parameters and buffers on device (?P<home>DEVICE)"),
    _pattern("wrapped", r"DistributedDataParallel device_ids and output_device arguments only work with|"
                        r"DistributedDataParallel's input module must be on the same type of devices"),
    _pattern("collective", r"No backend type associated with device type (?P<a>cpu)|Tensors must be CUDA and dense"),
    _pattern("pinned", r"cannot pin '(?P<a>torch\.cuda\.\w+)' only dense CPU tensors can be pinned"),
    _pattern("checkpoint", r"Attempting to deserialize object on (?:a )?CUDA device"),
    _pattern("parameters", r"Found two parameters on different devices"),
    # Operators with words of their own, some fifty of them.
    _pattern("operator", r"(?:same|different) (?:type of )?device|to be on CUDA"),
)  # fmt: skip

_HINT = re.compile(r"device|cuda|cpu|gpu|\bpin\b", re.IGNORECASE)
"""What each of them has: most errors are told apart by this alone."""
_KINDS = (RuntimeError, TypeError, ValueError, BufferError)


def recognise(error: BaseException) -> Said | None:
    """Which of PyTorch's sentences about devices this error says; None for any other error."""
    if not isinstance(error, _KINDS) or type(error).__str__ is not BaseException.__str__:
        return None  # a class with words of its own is not PyTorch's
    text = error.args[0] if len(error.args) == 1 else None
    if not isinstance(text, str) or _HINT.search(text) is None:
        return None
    for pattern in _PATTERNS:
        match = pattern.words.search(text)
        if match is not None:
            if pattern.kind == "hook" and bool(match["home"]) == bool(match["a"]):
                return None  # another dtype on the same device
            return Said(pattern.kind, match)
    return None
