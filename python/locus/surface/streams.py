"""torch.cuda.Stream, ExternalStream and Event for simulated devices, on top of PyTorch's device-neutral ones.

Only the CUDA names and rules are here; order and time are kept by the bridge.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias, cast

import torch

from locus.surface import not_simulated

if TYPE_CHECKING:
    from locus._bridge import Bridge


_bridge: Bridge = None  # type: ignore[assignment]  # until install()
_CUDA = 1  # c10::DeviceType::CUDA
# Handle -> (stream id, device): a number that stands for a stream was read from `cuda_stream`. Bounded by the pools.
_known_handles: dict[int, tuple[int, int]] = {}


Device: TypeAlias = "str | int | torch.device | None"


class Stream(torch.Stream):
    """A CUDA stream of a simulated device."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: int) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(
                cls,
                stream_id=kwargs["stream_id"],
                device_index=kwargs["device_index"],
                device_type=kwargs.get("device_type", _CUDA),
            )
        index = _index_or_current(device)
        if "stream_ptr" in kwargs:
            stream_id, index, device_type = stream_from_handle(kwargs["stream_ptr"], index)
        else:
            stream_id, index, device_type = _bridge.stream_from_pool(index, priority)
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=device_type)

    @property
    def cuda_stream(self) -> int:
        """The number that stands for the stream outside PyTorch; 0 for a default stream."""
        handle = _bridge.stream_handle(self.stream_id, self.device_index)
        if handle:
            _known_handles[handle] = (self.stream_id, self.device_index)
        return handle

    @property
    def priority(self) -> int:
        """The stream's priority; lower is sooner."""
        return _bridge.priority_of(self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return (0, -3)

    def wait_event(self, event: torch.Event) -> None:
        """Makes later work of this stream wait for the event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Makes later work of this stream wait for what the other stream has so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]  # as CUDA's does
        """Records the event, or a new one, on this stream."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.cuda_stream)


class ExternalStream(Stream):
    """A stream that is known by its handle; here, only a simulated stream can be."""

    def __new__(cls, stream_ptr: int, device: Device = None, **kwargs: int) -> ExternalStream:
        made = super().__new__(cls, device=device, stream_ptr=stream_ptr, **kwargs)
        return cast("ExternalStream", made)


class Event(torch.Event):
    """A CUDA event of a simulated device."""

    _plain: torch.Event
    _enable_timing: bool

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Event:
        torch.cuda._lazy_init()
        options = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        event = super().__new__(cls, device=torch.device("cuda"), **options)
        # PyTorch measures the time between two of its own plain events only, not between two of a subclass.
        event._plain = torch.Event(device=torch.device("cuda"), **options)
        event._enable_timing = enable_timing
        return event

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: bytes) -> Event:
        """Not simulated: raises."""
        raise not_simulated.error("torch.cuda.Event.from_ipc_handle")

    def ipc_handle(self) -> bytes:
        """Not simulated: raises."""
        raise not_simulated.error("torch.cuda.Event.ipc_handle")

    def record(self, stream: torch.Stream | None = None) -> None:
        """Records the event on the stream, or on the current one."""
        stream = torch.cuda.current_stream() if stream is None else stream
        super().record(stream)
        if self._enable_timing:
            self._plain.record(stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event's record() to the other's."""
        return self._plain.elapsed_time(end_event._plain if isinstance(end_event, Event) else end_event)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Makes later work of the stream, or of the current one, wait for the event."""
        super().wait(torch.cuda.current_stream() if stream is None else stream)

    @property
    def cuda_event(self) -> int:
        """The number that stands for the event outside PyTorch; 0 before it is first recorded."""
        return self.event_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self) -> str:
        handle = self.cuda_event
        return f"<torch.cuda.Event {handle:#x}>" if handle else "<torch.cuda.Event uninitialized>"


def stream_from_handle(handle: int, index: int) -> tuple[int, int, int]:
    """(stream id, device index, device type) of a stream that is known by its number."""
    if handle == 0:
        return (0, index, _CUDA)
    if handle not in _known_handles:
        raise not_simulated.error("torch.cuda.ExternalStream", f"the external stream {handle:#x}")
    stream_id, device_index = _known_handles[handle]
    return (stream_id, device_index, _CUDA)


def _index_or_current(device: Device) -> int:
    torch.cuda._lazy_init()
    index = torch.cuda._utils._get_device_index(device, optional=True)
    return torch.cuda.current_device() if index < 0 else index


def install(bridge: Bridge) -> None:
    """Puts the classes where torch.cuda, its parts and its users look for them."""
    global _bridge
    _bridge = bridge
    for name in ("Stream", "ExternalStream", "Event"):
        ours = globals()[name]
        for module in (torch.cuda, torch.cuda.streams):
            setattr(module, name, ours)
        ours.__module__ = "torch.cuda.streams"
    torch._C._CudaStreamBase, torch._C._CudaEventBase = Stream, Event  # type: ignore[assignment, misc]
