"""What PyTorch and the libraries around it say about tensors on the wrong device: which sentence is which kind of
mistake.

Reads words only and imports no PyTorch. Of an error that somebody caught a sentence is no proof: who explains one also
looks for a tensor that is where the sentence says. Of one that nobody caught it is: the program ended because of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from locus import markup

if TYPE_CHECKING:
    from locus.program import shapes
    from locus.program.shapes import Culprit, Fix, Location

_CPP_FRAMES = re.compile(r"\n(?:Exception raised from|C\+\+ CapturedTraceback:|frame #\d+:).*", re.DOTALL)
_MOST_WORDS = 300
_DEVICE = r"(?:cuda|cpu|meta|mps|xpu)(?::\d+)?"


def without_frames(words: str) -> str:
    """What an error says, without the C++ frames that PyTorch puts behind some."""
    return _CPP_FRAMES.sub("", words)


def quoted(sentence: str) -> str:
    """A sentence of an error as a finding says it: in one line, not too long, without the error's class."""
    said = re.sub(r"^[\w.]*(?:Error|Exception): ", "", " ".join(sentence.split()))
    return said if len(said) <= _MOST_WORDS else said[: _MOST_WORDS - 1].rstrip() + "…"


class Finding:
    """What Locus has to say about an exception. `str()` of it is the text; `data` is as in the JSON report."""

    def __init__(self, data: shapes.Finding, text: str):
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
    def cause(self) -> Location:
        """The line to edit: file and line."""
        return self.data["cause"].copy()

    @property
    def culprit(self) -> Culprit:
        """The tensor: name, kind, device, expected_device."""
        return self.data["culprit"].copy()

    @property
    def fixes(self) -> list[Fix]:
        """The edits."""
        return list(self.data["fixes"])

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """In a notebook."""
        return markup.colored(self.text)

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
    return _Pattern(re.compile(words.replace("DEVICE", _DEVICE), re.IGNORECASE), kind)


_WANTED = r"(?:must|should|needs?|have to|has to|expects?|expected(?: to)?|expected \S+ to) (?:all )?(?:to )?(?:be )?"
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
    _pattern("generator", r"Expected a '(?P<home>\w+)' (?:device type for generator|generator device) but found "
                          r"'(?P<a>\w+)'"),
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
    _pattern("state-dict", r"Error\(s\) in loading state_dict for \w+:[\s\S]*got mixed torch\.Tensor and DTensor"),
    _pattern("dtensor", r"(?P<op>\S+) got mixed torch\.Tensor and DTensor"),
    _pattern("mesh", r"Mesh should not be bigger than default world size \d+, but found \d+ ranks"),
    _pattern("parent-first", r"Invariant encountered: value was None when it should not be|"
                             r"FSDP (?:requires|expects) (?:the )?DP and .*mesh to have the same parent mesh"),
    _pattern("parameters", r"Found two parameters on different devices"),
    _pattern("checkpoint", r"don't know how to restore data location of .* \(tagged with cuda"),
    # Operators, optimizers and libraries with words of their own.
    _pattern("operator", r"Trying to pass too many CPU scalars to non-CPU kernel"),
    _pattern("operator", r"CPU Scalar support for \w+ argument is not supported when calling (?P<op>\w+)"),
    _pattern("operator", r"expected a CUDA device but found cpu"),
    _pattern("operator", r"CUDAGuardImpl initialized with non-CUDA DeviceType: (?P<a>cpu)"),
    _pattern("operator", r"Expected tensor to have (?P<b>DEVICE) Device(?:Type)?, but got tensor with (?P<a>DEVICE) "
                         r"Device(?:Type)? \(while checking arguments for (?:torch\.)?(?P<op>\w+)"),
    _pattern("operator", r"[Ee]xpect(?:s|ed)? (?:\w+ )*device (?:type )?['\"]?(?P<b>DEVICE)['\"]?,? but (?:got|found) "
                         r"(?:device )?(?:type )?['\"]?(?P<a>DEVICE)"),
    _pattern("operator", r"[Ee]xpect(?:s|ed)? .*\b(?:on|to) (?:the )?(?:\w+ )?device (?P<b>DEVICE),? "
                         r"(?:but got|was on) (?P<a>DEVICE)"),
    _pattern("operator", r"Expected \S*device\(\) == \S+ to be true"),
    _pattern("operator", r"Expected !?\S+\.(?:is_cuda|is_cpu|device\(\)\.is_\w+)\(\) to be true"),
    _pattern("operator", r"must be on supported devices|"
                         r"`fused=True` requires all the params to be .* but torch\.\w+ and (?P<a>cpu)"),
    _pattern("operator", r"Pointer argument \(at \d+\) cannot be accessed from Triton"),
    _pattern("operator", r"[Dd]uplicate GPU detected"),
    _pattern("operator", r"__cuda_array_interface__ on non-CUDA tensor"),
    _pattern("operator", r"[Cc]an(?:not|'t) (?:move DLPack tensor from device|alias tensor from device|"
                         r"export tensors on a different CUDA device)"),
    _pattern("operator", r"only supports single device modules|Inconsistent compute device and `device_id`"),
    _pattern("operator", r"(?:same|different)(?: types? of)?(?: cuda)? devices?\b(?! mesh)|\bsame GPU\b|two devices|"
                         r"incompatible devices|share device|correct device set|"
                         r"devices (?:must match|to be of the same type)|"
                         r"expected device\(s\)|to match dense tensor, but got tensor on device|received on device"),
    _pattern("operator", r"device (?:type |index )?mismatch|device(?: type)? (?:of .+ )?does(?: not|n't) match|"
                         r"(?:device|backend)(?: type)? of \w+ \(.+ must match|match (?:the )?device(?: type)? of"),
    _pattern("operator", _WANTED + r"(?:moved |placed |located |a scalar tensor and )?(?:on|in|to) (?:the |a |an )?"
                         r"(?:CUDA|GPU|CPU)\b"),
    _pattern("operator", _WANTED + r"(?:a |an )?(?:\d-?d )?(?:dense )?(?:CUDA|GPU|CPU) tensors?\b"),
    _pattern("operator", r"(?:only supports|only|implemented on) (?:dense )?(?:CPU|CUDA|GPU) tensors|"
                         r"only available on (?:CPU|CUDA|GPU)\b|'s device should be (?:CPU|CUDA)"),
    _pattern("operator", r"to have device context DEVICE|"
                         r"\b(?:is|are|was) on (?:device )?DEVICE\b.*\b(?:is|are|was) on (?:device )?DEVICE\b"),
)  # fmt: skip

_HINT = re.compile(r"device|cuda|cpu|gpu|triton|\bpin\b|dtensor|\bmesh\b|^Invariant encountered", re.IGNORECASE)
"""What each of them has: most errors are told apart by this alone."""
_OTHER = re.compile(
    r"out of memory|^Could not run '|device-side assert|invalid device ordinal|no kernel image|copy out of meta tensor|"
    r"compiled with CUDA|NVIDIA driver|No CUDA GPUs|no such device|left on device|device type for RNG",
    re.IGNORECASE,
)
"""Words about devices that say nothing of where a tensor is."""
_KINDS = (RuntimeError, TypeError, ValueError, BufferError)


def recognize(error: BaseException) -> Said | None:
    """Which of PyTorch's sentences about devices this error says; None for any other error."""
    if not isinstance(error, _KINDS) or type(error).__str__ is not BaseException.__str__:
        return None  # a class with words of its own is not PyTorch's
    text = error.args[0] if len(error.args) == 1 else None
    return read(text) if isinstance(text, str) else None


def read(text: str) -> Said | None:
    """The same of an error's words alone, whoever said them."""
    if _HINT.search(text) is None or _OTHER.search(text) is not None:
        return None
    for pattern in _PATTERNS:
        match = pattern.words.search(text)
        if match is not None:
            if pattern.kind == "hook" and bool(match["home"]) == bool(match["a"]):
                return None  # another dtype on the same device
            return Said(pattern.kind, match)
    return None


def any_words(text: str) -> Said:
    """An error that is known to be about devices by other means."""
    return Said("operator", re.compile(".*").match(text))  # type: ignore[arg-type]  # always matches
