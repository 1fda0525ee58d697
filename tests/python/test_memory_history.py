"""torch.cuda.memory's own tools on simulated devices: recorded histories, snapshots that PyTorch's viewer reads, the
allocator's settings."""

import pickle
import tempfile

import pytest
import torch
from simulated import simulated


def make():
    return torch.empty(3 << 20, dtype=torch.uint8, device="cuda")


@simulated(devices=2)
def test_a_snapshot_has_frames_and_traces():
    before = make()
    torch.cuda.memory._record_memory_history(max_entries=100)
    kept = make()
    gone = make()
    del gone
    with tempfile.NamedTemporaryFile() as file:
        torch.cuda.memory._dump_snapshot(file.name)
        snapshot = pickle.load(file)
    torch.cuda.memory._record_memory_history(enabled=None)
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["size"] == 3 << 20]
    assert [block["state"] for block in blocks] == ["active_allocated", "active_allocated"]
    names = [[frame["name"].rpartition(".")[2] for frame in block["frames"]] for block in blocks]
    assert [each[:2] for each in names] == [[], ["make", "test_a_snapshot_has_frames_and_traces"]]
    assert blocks[1]["frames"][0]["filename"] == __file__
    first, second = snapshot["device_traces"]
    assert [event["action"] for event in first] == ["alloc", "alloc", "free_requested", "free_completed", "snapshot"]
    assert [event["action"] for event in second] == ["snapshot"]
    assert first[0]["addr"] == blocks[1]["address"] and first[0]["size"] == 3 << 20
    assert first[0]["frames"][0]["line"] == make.__code__.co_firstlineno + 1
    del before, kept


@simulated(devices=1)
def test_stacks_go_through_pytorch_and_not_through_locus():
    torch.cuda.memory._record_memory_history(context="all")
    layer = torch.nn.Linear(4096, 8192, device="cuda")
    result = layer(torch.ones(512, 4096, device="cuda"))
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    (block,) = [b for s in snapshot["segments"] for b in s["blocks"] if b["requested_size"] == result.nbytes]
    files = [frame["filename"] for frame in block["frames"]]
    assert files[0].endswith("torch/nn/modules/linear.py") and __file__ in files
    assert not any("/locus/" in file and "site-packages" in file for file in files)
    torch.cuda.memory._record_memory_history(context=None)
    kept = make()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    assert not [b for s in snapshot["segments"] for b in s["blocks"] if b["size"] == kept.nbytes and b["frames"]]


@simulated(devices=1)
def test_the_viewer_reads_it():
    from torch.cuda import _memory_viz

    torch.cuda.memory._record_memory_history()
    kept = make()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(1 << 45, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    told = _memory_viz.trace(snapshot)
    assert "20.0MiB)" in told and "[0:3.0MiB]" in told and "raise OutOfMemoryError" in told
    assert "<html>" in _memory_viz.trace_plot(snapshot) and "<html>" in _memory_viz.segment_plot(snapshot)
    assert _memory_viz.segsum(snapshot)
    del kept


@simulated(devices=1)
def test_nothing_is_recorded_unasked():
    kept = make()
    snapshot = torch.cuda.memory._snapshot()
    assert snapshot["device_traces"] == [[]]
    assert not any(block["frames"] for segment in snapshot["segments"] for block in segment["blocks"])
    with pytest.raises(RuntimeError, match="expected state to be"):
        torch.cuda.memory._record_memory_history(enabled="everything")
    del kept


@simulated(devices=1)
def test_the_allocators_settings_are_obeyed():
    torch.cuda.init()
    torch._C._cuda_cudaCachingAllocator_set_allocator_settings("max_split_size_mb:64")
    assert torch.cuda.memory_stats()["max_split_size"] == 64 << 20
    large = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["oversize_allocations.current"] == 1
    del large
    small = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() == 130 << 20
    del small
    with pytest.raises(ValueError, match="max_split_size_mb too small, must be >= 20"):
        torch._C._cuda_cudaCachingAllocator_set_allocator_settings("max_split_size_mb:1")


@simulated(devices=2)
def test_observers_are_called_before_the_error():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
    torch.cuda.set_per_process_memory_fraction(0.5, 1)
    for device, limit in ((0, 80 << 30), (1, 40 << 30)):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 40, dtype=torch.uint8, device=f"cuda:{device}")
        assert seen[-1][:3] == (device, 1 << 40, limit), seen
        assert 0 < seen[-1][3] <= 80 << 30
    assert len(seen) == 2

    def faulty(*numbers):
        raise KeyError("of the observer's own")

    torch._C._cuda_attach_out_of_memory_observer(faulty)
    with pytest.raises(KeyError):
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
