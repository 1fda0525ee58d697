"""Memory: rounded as the caching allocator rounds, counted per device, and out of memory where the card is full."""

import pytest
import torch
from simulated import simulated


@simulated(devices=1)
@pytest.mark.parametrize(
    "size, rounded",
    [(1, 512), (512, 512), (513, 1024), (4000, 4096), (1 << 20, 1 << 20), ((1 << 20) + 1, (1 << 20) + 512)],
)
def test_sizes_are_rounded_to_512(size, rounded):
    before = torch.cuda.memory_allocated()
    x = torch.empty(size, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == rounded
    del x
    assert torch.cuda.memory_allocated() == before


@simulated(devices=2)
def test_counters_are_per_device():
    assert torch.cuda.memory_allocated(0) == torch.cuda.memory_allocated(1) == 0
    x = torch.empty(256, device="cuda:1")
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == (0, 1024)
    y = x.to("cuda:0")
    with torch.cuda.device(1):
        del x
        assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated()) == (1024, 0)
    del y


@simulated(devices=1)
def test_what_shares_storage_is_counted_once():
    x = torch.empty(1024, device="cuda")
    views = [x[1:], x.view(32, 32), x.detach(), x.t()]
    assert torch.cuda.memory_allocated() == 4096
    del x
    assert torch.cuda.memory_allocated() == 4096
    views.clear()
    assert torch.cuda.memory_allocated() == 0
    empty = torch.empty(0, device="cuda")
    assert torch.cuda.memory_allocated() == 0 and empty.numel() == 0


@simulated(devices=1)
def test_peak_and_its_reset():
    x = torch.empty(1 << 20, device="cuda")
    y = torch.empty(1 << 20, device="cuda")
    del x, y
    assert torch.cuda.max_memory_allocated() == 8 << 20 and torch.cuda.memory_allocated() == 0
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    z = torch.empty(1 << 18, device="cuda")
    assert torch.cuda.max_memory_allocated() == 1 << 20
    del z


@simulated(devices=1)
def test_results_count_and_scratch_does_not():
    """The CPU kernel's own scratch memory is the host's, not the card's."""
    x = torch.ones(1000, 1000, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = x + 1
    assert torch.cuda.memory_allocated() - before == 4_000_256
    assert torch.cuda.max_memory_allocated() - before == 4_000_256
    s = x.sum()
    assert torch.cuda.memory_allocated() - before == 4_000_256 + 512
    x.add_(1).mul_(2)
    assert torch.cuda.max_memory_allocated() - before <= 4_000_256 + 4096  # a card's own reduction takes a little
    del y, s
    host = torch.ones(1000, 1000)
    assert torch.cuda.memory_allocated() == before and host.sum() > 0


@simulated(devices=1)
def test_no_leak_over_training_steps():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    after = []
    for _ in range(6):
        optimizer.zero_grad(set_to_none=True)
        model(torch.ones(32, 64, device="cuda")).mean().backward()
        optimizer.step()
        after.append(torch.cuda.memory_allocated())
    assert after[1] == after[-1], after


@simulated(devices=1, memory="1GiB")
def test_reserved_free_and_cache():
    free, total = torch.cuda.mem_get_info()
    assert total == 1 << 30 and 0 < free <= total
    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated() == 100 << 20
    assert free - torch.cuda.mem_get_info()[0] == torch.cuda.memory_reserved()
    del x
    assert torch.cuda.memory_reserved() >= 100 << 20, "the cache keeps it"
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0 and torch.cuda.mem_get_info()[0] == free


@simulated(devices=1)
def test_stats():
    x = torch.empty(1000, device="cuda")
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.current"] == 1 and stats["allocated_bytes.all.current"] == 4096
    assert stats["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated()
    assert stats["reserved_bytes.all.current"] == torch.cuda.memory_reserved()
    assert (
        stats["num_ooms"] == 0
        and "requested_bytes.all.current" in stats
        and stats["requested_bytes.all.current"] == 4000
    )
    del x
    assert torch.cuda.memory_stats()["allocation.all.freed"] == 1
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.freed"] == 0
    assert "CUDA" in torch.cuda.memory_summary()


@simulated(devices=2, memory="64MiB")
def test_out_of_memory_and_on():
    keep = torch.zeros(8 << 20, dtype=torch.uint8, device="cuda:0")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
    message = str(caught.value)
    assert message.startswith("CUDA out of memory. Tried to allocate 1024.00 MiB.") or message.startswith(
        "CUDA out of memory. Tried to allocate 1.00 GiB."
    )
    assert "GPU 0 has a total capacity of 64.00 MiB" in message
    assert isinstance(caught.value, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.cuda.memory_stats(0)["num_ooms"] == 1
    kept = torch.empty(48 << 20, dtype=torch.uint8, device="cuda:1")
    with pytest.raises(torch.OutOfMemoryError, match="GPU 1"):
        kept.to(torch.float32)  # in the middle of an operator
    with pytest.raises(torch.OutOfMemoryError):
        kept + 1
    del kept
    assert keep.sum().item() == 0 and torch.cuda.memory_allocated(1) == 0
    assert torch.empty(48 << 20, dtype=torch.uint8, device="cuda:1").numel() == 48 << 20


@simulated(devices=1, memory="256MiB")
def test_out_of_memory_in_backward():
    weight = torch.ones(1 << 20, device="cuda", requires_grad=True)
    with pytest.raises(torch.OutOfMemoryError):
        x = weight
        for _ in range(100):
            x = x.sin()
        x.sum().backward()
    del x
    torch.cuda.empty_cache()
    (weight * 2).sum().backward()
    assert weight.grad.sum().item() == 2 << 20


@simulated(devices=1, memory="1GiB")
def test_memory_fraction():
    torch.cuda.set_per_process_memory_fraction(0.1)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.empty(200 << 20, dtype=torch.uint8, device="cuda").numel() == 200 << 20


@simulated(devices=1)
def test_a_machine_larger_than_this_one():
    """80 GiB devices on any host: memory nobody touches costs nothing."""
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(500 << 30, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    big = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 60 << 30
    big[:10] = 7
    big[-10:] = 9
    assert big[:10].sum().item() == 70 and big[-1].item() == 9


@simulated(devices=1)
def test_resize_and_set():
    x = torch.empty(10, device="cuda")
    x.resize_(1000)
    assert x.device.type == "cuda" and torch.cuda.memory_allocated() >= 4096
    storage = x.untyped_storage()
    storage.resize_(0)
    assert torch.cuda.memory_allocated() == 0
    storage.resize_(4000)
    x.fill_(3)
    assert x.sum().item() == 3000


@simulated(devices=1)
def test_pinned_memory():
    host = torch.arange(4.0)
    assert not host.is_pinned()
    pinned = host.pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu" and torch.equal(pinned, host)
    assert pinned.pin_memory() is pinned and pinned[1:].is_pinned() and not (pinned + 1).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned() and torch.zeros(3, pin_memory=True).sum() == 0
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), host)
    back = torch.empty(4, pin_memory=True)
    back.copy_(pinned.cuda() * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert back.tolist() == [0, 2, 4, 6]
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(1, device="cuda").pin_memory()


@simulated(devices=1)
def test_pinned_memory_is_counted():
    torch.cuda.init()
    before = torch.cuda.host_memory_stats()["active_bytes.current"]
    buffers = [torch.empty(1000, dtype=torch.uint8, pin_memory=True) for _ in range(3)]
    stats = torch.cuda.host_memory_stats()
    assert stats["active_bytes.current"] - before == 3 * 1024 and stats["num_host_alloc"] >= 3
    buffers.clear()
    kept = torch.cuda.host_memory_stats()
    assert kept["active_bytes.current"] == before and kept["allocated_bytes.current"] >= 3 * 1024
    torch._C._host_emptyCache()
    torch.cuda.reset_peak_host_memory_stats()
    torch.cuda.reset_accumulated_host_memory_stats()
    stats = torch.cuda.host_memory_stats_as_nested_dict()
    assert stats["allocated_bytes"] == {"current": before, "peak": before, "allocated": 0, "freed": 0}
