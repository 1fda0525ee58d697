"""PyTorch's GPU-trace callbacks on simulated devices, and its CUDA sanitizer on top of them."""

import pytest
import torch
from simulated import simulated


@simulated(devices=1)
def test_callbacks_are_called():
    import torch.cuda._gpu_trace as trace

    seen = []
    torch._C._activate_gpu_trace()
    for name in ("event_record", "event_wait", "memory_allocation", "memory_deallocation", "stream_creation"):
        getattr(trace, f"register_callback_for_{name}")(lambda *given, name=name: seen.append((name, given)))
    trace.register_callback_for_device_synchronization(lambda: seen.append(("device", ())))
    trace.register_callback_for_stream_synchronization(lambda stream: seen.append(("stream", (stream,))))
    side = torch.cuda.Stream()
    x = torch.ones(3, device="cuda")
    address = x.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    side.synchronize()
    torch.cuda.synchronize()
    del x
    names = [name for name, _ in seen]
    assert ("stream_creation", (side.cuda_stream,)) in seen and ("stream", (side.cuda_stream,)) in seen
    assert ("memory_allocation", (address,)) in seen and ("memory_deallocation", (address,)) in seen
    assert names.index("event_record") < names.index("event_wait") and "device" in names
    assert [given[1] for name, given in seen if name == "event_wait"] == [side.cuda_stream]


@simulated(devices=1)
def test_the_sanitizer_tells_right_from_wrong():
    import torch.cuda._sanitizer as sanitizer

    sanitizer.enable_cuda_sanitizer()
    side = torch.cuda.Stream()
    x = torch.ones(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    y.add_(1)
    with torch.cuda.stream(side), pytest.raises(sanitizer.CUDASanitizerErrors):
        y.add_(1)
