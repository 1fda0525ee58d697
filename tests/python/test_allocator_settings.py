"""PYTORCH_CUDA_ALLOC_CONF: read when CUDA is first used, refused in PyTorch's words, never passed over. The words
themselves: tests/sim/allocator_settings_test.cc."""

import builtins
import contextlib
import io
import os

import pytest
import torch
from simulated import simulated

MIB = 1 << 20


@pytest.mark.parametrize("variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("expandable_segment:True", "ValueError", r"Unrecognized key 'expandable_segment' in CUDA allocator config\."),
        ("expandable_segments:maybe", "ValueError", "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got"),
        ("max_split_size_mb:10", "ValueError", "CachingAllocator option max_split_size_mb too small, must be >= 20"),
        ("max_split_size_mb:many", "RuntimeError", "stoull"),
        ("max_split_size_mb", "RuntimeError", "Index out of bounds in ConfigTokenizer"),
    ],
)
@simulated(devices=1)
def test_what_is_wrong_is_refused_at_the_first_use_of_cuda(variable, text, error, words):
    os.environ[variable] = text
    assert torch.cuda.is_available() and torch.cuda.memory_allocated() == 0
    torch.zeros(3)
    for _ in range(2):  # nor is it forgotten
        with pytest.raises(getattr(builtins, error), match=words):
            torch.empty(9, device="cuda")


@simulated(devices=2)
def test_the_older_name_comes_first():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"
    os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:99,no_such_thing:1"
    torch.cuda.init()
    assert [torch.cuda.memory_stats(i)["max_split_size"] for i in range(2)] == [64 * MIB, 64 * MIB]


@simulated(devices=1)
def test_a_share_of_the_card_and_larger_segments():
    os.environ["PYTORCH_ALLOC_CONF"] = "per_process_memory_fraction:0.25,large_segment_size_mb:64"
    kept = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() == 64 * MIB
    assert torch.cuda.get_per_process_memory_fraction() == 0.25
    with pytest.raises(torch.OutOfMemoryError, match=r"20\.00 GiB allowed"):
        torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
    del kept


@simulated(devices=1)
def test_what_is_set_later_is_refused_at_once():
    torch.cuda.init()
    setting = torch._C._accelerator_setAllocatorSettings
    for text, error, words in (
        ("x:1", ValueError, r"Unrecognized key 'x' in Accelerator allocator config\."),
        ("max_split_size_mb:99999999999999999999", IndexError, "stoull"),
        ("garbage_collection_threshold:half", ValueError, "stod"),
        ("expandable_segments:", RuntimeError, "Index out of bounds in ConfigTokenizer"),
        ("backend:cudaMallocAsync", RuntimeError, "Allocator backend parsed at runtime != allocator backend parsed at"),
    ):
        with pytest.raises(error, match=words):
            setting(text)
    assert torch.cuda.memory._snapshot()["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] == ""


@simulated(devices=1)
def test_a_snapshot_has_the_settings():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64, roundup_power2_divisions:[256:1,>:8]"
    torch.cuda.init()
    settings = torch.cuda.memory._snapshot()["allocator_settings"]
    divisions = settings.pop("roundup_power2_divisions")
    assert (divisions["1"], divisions["256"], divisions["512"], divisions["32768"]) == (1, 8, 8, 8)
    assert len(divisions) == 16
    assert settings == {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64, roundup_power2_divisions:[256:1,>:8]",
        "max_split_size": 64 * MIB, "garbage_collection_threshold": 0.0, "expandable_segments": False,
        "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False, "pinned_use_cuda_host_register": False,
        "graph_capture_record_stream_reuse": False,
    }  # fmt: skip


@simulated(devices=1)
def test_the_allocator_that_is_not_simulated_is_named():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    with contextlib.redirect_stderr(io.StringIO()) as said:
        torch.cuda.init()
    assert "backend:cudaMallocAsync is counted as PyTorch's own allocator" in said.getvalue()
