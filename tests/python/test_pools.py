"""Memory that is kept apart: torch.cuda.MemPool, the pools of CUDA graphs; and segments that grow."""

import gc
import threading

import pytest
import torch
from simulated import simulated

MIB = 1 << 20


def taken(mebibytes, device="cuda"):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device=device)


def reserved(device=None):
    return torch.cuda.memory_reserved(device) // MIB


@simulated(devices=2)
def test_a_pool_keeps_its_memory_to_itself():
    pool = torch.cuda.MemPool()
    torch.cuda.memory._record_memory_history()
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        inside = taken(30)
        other_device = taken(30, "cuda:1")
    outside = taken(30)
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    assert [event["pool_id"] for event in events if event["action"] == "alloc"] == [pool.id, (0, 0)]
    torch.cuda.memory._record_memory_history(enabled=None)
    assert (reserved(), reserved(1), pool.use_count()) == (60, 30, 1)
    assert [segment["segment_pool_id"] for segment in pool.snapshot()] == [pool.id]
    assert len(torch.cuda.memory_snapshot()) == 3
    assert torch.cuda.memory_snapshot(pool.id) == pool.snapshot()
    del inside, outside, other_device
    torch.cuda.empty_cache()
    assert (reserved(), reserved(1)) == (30, 0)
    outside = taken(25)
    assert reserved() == 56
    with torch.cuda.use_mem_pool(pool):
        again = taken(25)
    assert reserved() == 56
    del again, outside, pool
    gc.collect()
    assert reserved() == 26  # the pool's memory has gone with it
    torch.cuda.empty_cache()


@simulated(devices=2)
def test_a_pool_is_the_current_threads_and_of_one_device():
    pool, seen = torch.cuda.MemPool(), []
    with torch.cuda.use_mem_pool(pool, device=1):
        thread = threading.Thread(target=lambda: seen.append(taken(30, "cuda:1")))
        thread.start()
        thread.join()
        seen.append(taken(30))
        assert pool.snapshot() == []
        seen.append(taken(30, "cuda:1"))
        assert [segment["device"] for segment in pool.snapshot()] == [1]
    seen.clear()


@simulated(devices=1, memory=100 * MIB)
def test_a_pool_can_be_the_last_resort():
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        del_me = taken(80)
    del del_me
    kept = taken(60)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        taken(60)
    del kept


@simulated(devices=1)
def test_an_allocator_of_its_own_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="MemPool\\(allocator\\)"):
        torch.cuda.MemPool(object())


@simulated(devices=1)
def test_a_graphs_memory_is_its_own_until_it_is_gone():
    x = torch.zeros(MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2 + 1
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    assert pools == {(0, 0), graph.pool()}
    graph.replay()
    assert y[0].item() == 1
    del y
    torch.cuda.empty_cache()
    assert graph.pool() in {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()} == {(0, 0)}


@simulated(devices=1)
def test_segments_that_grow():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.memory._record_memory_history(max_entries=100)
    first, second = taken(25), taken(30)
    (segment,) = torch.cuda.memory_snapshot()
    assert segment["is_expandable"] and segment["total_size"] == 60 * MIB
    del first
    torch.cuda.empty_cache()
    (events,) = torch.cuda.memory._snapshot()["device_traces"]
    assert [event["action"] for event in events if "segment" in event["action"]] == [
        "segment_map",
        "segment_map",
        "segment_unmap",
    ]
    assert reserved() == 40
    torch.cuda.memory._record_memory_history(enabled=None)
    del second
