"""What a dry run writes and hands to the host: holes where there are no values, and everything that is known."""

import os

import pytest
from dry_running import locus

MODEL = """
    import os, torch, locus
    from torch import nn
    model = nn.Sequential(nn.Linear(8192, 8192), nn.Linear(8192, 8192)).cuda()
    model.register_buffer("seen", torch.tensor([3, 5, 7], device="cuda"))
"""


@pytest.mark.parametrize("options", [(), ("--dry-keep", "0")])
def test_what_is_known_is_in_the_checkpoint(tmp_path, options):
    """A run goes on where it stopped: the state of generators, counters and tables are not those of large weights."""
    out, _ = locus(
        tmp_path, "run", "--dry", *options,
        source=MODEL + """
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(4, 8192, device="cuda")).sum().backward()
    optimizer.step()
    torch.manual_seed(11)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": 1.5,
                "lengths": torch.tensor([4, 2]), "random": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state(),
                "host": nn.Linear(4096, 4096).state_dict()}, "kept.pt")
    expected = torch.rand(3).tolist(), torch.randperm(5).tolist()
    torch.manual_seed(12)
    kept = torch.load("kept.pt", map_location="cpu", weights_only=True)
    torch.set_rng_state(kept["random"])
    torch.cuda.set_rng_state(kept["cuda"])
    nn.Linear(4096, 4096)
    assert (torch.rand(3).tolist(), torch.randperm(5).tolist()) == expected
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    assert kept["best"] == 1.5 and kept["lengths"].tolist() == [4, 2]
    assert kept["optimizer"]["state"][0]["step"].item() == 1
    if locus.is_known(model.seen):
        assert kept["model"]["seen"].tolist() == [3, 5, 7]
    print(model[0].weight.device, os.path.getsize("kept.pt") > 1 << 30, os.stat("kept.pt").st_blocks * 512 < 1 << 24)
        """,
        status=0,
    )  # fmt: skip
    assert out.split() == ["cuda:0", "True", "True"]


def test_numpy_sees_what_is_made_up(tmp_path):
    """Finite, the same each time, and what the program writes over it stays."""
    out, said = locus(
        tmp_path, "check", "--dry", "--dry-keep", "0",
        source="""
            import numpy, torch
            used = [torch.tensor([float("nan")] * 4000) for _ in range(50)]  # what the allocator hands out again
            del used
            x = torch.randn(5000, 300, device="cuda")
            first = x.mean(1).cpu().numpy()
            assert numpy.all(first == 0.5), first
            rows = x.cpu()
            assert rows.tolist()[7][:2] == [0.5, 0.5]
            view = rows.numpy()
            view[0] = 3
            assert rows.numpy()[0, 0] == 3 and rows.numpy()[1, 0] == 0.5
            assert numpy.from_dlpack(x.sum(1).cpu())[4999] == 0.5
            print(numpy.quantile(first, 0.9))
        """,
        status=0,
    )  # fmt: skip
    assert out.strip() == "0.5"
    assert "values made up at 5 lines" in said


def test_safetensors_leaves_holes(tmp_path):
    pytest.importorskip("safetensors")
    out, _ = locus(
        tmp_path, "run", "--dry",
        source=MODEL + """
    from safetensors import safe_open
    from safetensors.torch import load_file, load_model, save_file, save_model
    save_file(model.state_dict(), "model.safetensors", {"format": "pt"})
    loaded = load_file("model.safetensors", device="cuda:0")
    assert {k: (v.shape, v.dtype) for k, v in loaded.items()} == {
        k: (v.shape, v.dtype) for k, v in model.state_dict().items()}
    assert loaded["seen"].tolist() == [3, 5, 7]
    with safe_open("model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"} and file.get_slice("0.weight")[:2, :3].shape == (2, 3)
    save_model(model, "whole.safetensors")
    assert load_model(model, "whole.safetensors") == (set(), [])
    for wrong in ({"t": model[0].weight.data.t()}, {"a": model[0].weight, "b": model[0].weight}, {"a": 1}):
        try:
            save_file(wrong, "wrong.safetensors")
        except (RuntimeError, ValueError):
            continue
        raise AssertionError("not refused")
    kept = os.stat("model.safetensors")
    print(kept.st_size > 1 << 29, kept.st_blocks * 512 < 1 << 20)
        """,
        status=0,
    )  # fmt: skip
    assert out.split() == ["True", "True"]
    assert os.path.getsize(tmp_path / "whole.safetensors") > 1 << 29


DISTRIBUTED = """
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    net = DistributedDataParallel(net, device_ids=[rank], bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        net(torch.randn(4, 64, device="cuda")).sum().backward()
        optimizer.step()
    print("done", flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("keep", ["64KiB", "0"])
def test_data_parallel_ranks_agree_on_sizes_and_buckets(tmp_path, keep):
    out, _ = locus(tmp_path, "run", "--dry", "--dry-keep", keep, "--nproc", "2", source=DISTRIBUTED, status=0)
    assert out.count("done") == 2


def test_host_tensors_of_a_gloo_group_travel_whatever_a_rank_knows(tmp_path):
    out, _ = locus(
        tmp_path, "run", "--dry", "--nproc", "2",
        source="""
            import os, torch, torch.distributed as dist, locus
            dist.init_process_group("gloo")
            rank, size = dist.get_rank(), 1 << 20
            # Known on rank 1 alone.
            mixed = torch.randn(size) if rank == 0 else torch.tensor(list(range(size)), dtype=torch.float32)
            assert locus.is_known(mixed) == (rank == 1)
            dist.all_reduce(mixed)
            dist.all_reduce(mixed, async_op=True).wait()
            parts = [torch.empty(size) for _ in range(2)]
            dist.all_gather(parts, torch.randn(size))
            dist.broadcast(parts[0], 1)
            counts = torch.tensor([rank + 1.0])
            dist.all_reduce(counts)
            os.write(1, f"{counts.item()} {mixed.shape}\\n".encode())  # in one piece: both ranks print at one time
            dist.destroy_process_group()
        """,
        status=0,
    )  # fmt: skip
    assert out.count("3.0 torch.Size([1048576])") == 2
