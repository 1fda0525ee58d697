"""Streams and events: identity, order, the device they belong to, time."""

import pytest
import torch
from simulated import simulated


@simulated(devices=2)
def test_identity():
    default, a, b = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()
    assert torch.cuda.current_stream() == default and a != b != default
    assert default.cuda_stream == 0 and a.cuda_stream != 0 and a.cuda_stream != b.cuda_stream
    assert hash(a) == hash(
        torch.cuda.Stream(stream_id=a.stream_id, device_index=a.device_index, device_type=a.device_type)
    )
    assert torch.cuda.Stream(device="cuda:1").device == torch.device("cuda:1") == torch.cuda.current_stream(1).device
    assert isinstance(a, torch.Stream) and "cuda" in repr(a).lower()
    high = torch.cuda.Stream(priority=-1)
    assert high.priority == -1 and a.priority == 0
    low, high = torch.cuda.Stream.priority_range()
    assert low >= high


@simulated(devices=2)
def test_contexts():
    a, far = torch.cuda.Stream(), torch.cuda.Stream(device=1)
    with torch.cuda.stream(a):
        assert torch.cuda.current_stream() == a
        with torch.cuda.stream(far):
            assert torch.cuda.current_device() == 1 and torch.cuda.current_stream() == far
            assert torch.cuda.current_stream(0) == a
        assert torch.cuda.current_device() == 0
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == a
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.set_stream(a)
    assert torch.cuda.current_stream() == a
    torch.cuda.set_stream(torch.cuda.default_stream())
    if hasattr(torch.Stream, "__enter__"):  # since 2.7 a stream is a context by itself, too
        with a:
            assert torch.cuda.current_stream() == a


@simulated(devices=1)
def test_current_stream_is_a_threads_own():
    import threading

    seen = []
    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(
            target=lambda: seen.append(torch.cuda.current_stream() == torch.cuda.default_stream())
        )
        thread.start()
        thread.join()
    assert seen == [True]


@simulated(devices=1)
def test_events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    assert start.query(), "an event that nothing was recorded in is done"
    start.record()
    torch.ones(200, 200, device="cuda") @ torch.ones(200, 200, device="cuda")
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    with pytest.raises((RuntimeError, ValueError)):
        torch.cuda.Event().elapsed_time(end)
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(torch.cuda.Event(enable_timing=True))
    side = torch.cuda.Stream()
    event = side.record_event()
    side.wait_event(event)
    side.wait_stream(torch.cuda.current_stream())
    event.wait(side)
    assert event.query() and side.query() and event.device == torch.device("cuda:0")
    assert "cuda" in repr(event).lower()


@simulated(devices=1)
def test_values_are_there_after_every_kind_of_wait():
    host = torch.arange(1000.0).pin_memory()
    for wait in (
        lambda stream: torch.cuda.synchronize(),
        lambda stream: stream.synchronize(),
        lambda stream: torch.cuda.current_stream().wait_stream(stream),
    ):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            there = host.to("cuda", non_blocking=True)
            doubled = there * 2
        wait(side)
        doubled.record_stream(torch.cuda.current_stream())
        assert torch.equal(doubled.cpu(), host * 2)


@simulated(devices=2)
def test_generic_streams():
    stream = torch.Stream(device="cuda:1")
    assert stream.device == torch.device("cuda:1")
    event = torch.Event(device="cuda:1")
    stream.record_event(event)
    event.synchronize()
    assert event.query()
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream(1) == stream and torch.accelerator.current_device_index() == 1
    torch.accelerator.synchronize()
