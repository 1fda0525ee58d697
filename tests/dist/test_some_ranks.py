"""`--nnodes`, dry ranks, and `--ranks`: some ranks stand for all, their calls are compared, and there is one report."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOCUS = [sys.executable, "-m", "locus"]
PROGRAMS = Path(__file__).parent.parent / "programs" / "cluster"


def run(*arguments, cwd, timeout=300):
    return subprocess.run([*LOCUS, *arguments], cwd=cwd, timeout=timeout, capture_output=True, text=True)


def check(tmp_path, text, *options):
    """(the report, the finished process)"""
    script = tmp_path / "train.py"
    script.write_text(text)
    done = run("check", "--dry", *options, "--json", "report.json", "train.py", cwd=tmp_path)
    assert (tmp_path / "report.json").exists(), done.stderr
    return json.loads((tmp_path / "report.json").read_text()), done


def test_run_starts_ranks_on_hosts(tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "local = int(os.environ['LOCAL_RANK'])\n"
        "x = torch.ones(1, device=f'cuda:{local}')\n"
        "dist.all_reduce(x)\n"
        "e = os.environ\n"
        "words = [e['RANK'], e['LOCAL_RANK'], e['GROUP_RANK'], e['LOCAL_WORLD_SIZE'], torch.cuda.device_count()]\n"
        "os.write(1, (' '.join(map(str, [*words, x.item()])) + '\\n').encode())\n"
    )  # one write: ranks that print may mingle their words
    done = run("run", "--nproc", "4", "--nnodes", "2", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 0 0 2 2 4.0", "1 1 0 2 2 4.0", "2 0 1 2 2 4.0", "3 1 1 2 2 4.0"]


def test_run_hands_on_the_exit_status(tmp_path):
    (tmp_path / "train.py").write_text("import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    assert run("run", "--nproc", "2", "train.py", cwd=tmp_path).returncode == 3


DRY_RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
import locus
small = torch.tensor([rank + 1], device="cuda")
dist.all_reduce(small)
assert small.item() == 3, small
large = torch.empty(1 << 34, dtype=torch.bfloat16, device="cuda")  # 32 GiB that nobody has
dist.all_reduce(large)
assert not locus.is_known(large)
parts = torch.empty(1 << 35, dtype=torch.bfloat16, device="cuda")
dist.all_gather_into_tensor(parts, large)
dist.reduce_scatter_tensor(large, parts)
work = dist.isend(large, 1) if rank == 0 else dist.irecv(large, 0)
work.wait()
got = [torch.zeros(1, dtype=torch.long, device="cuda") for _ in range(2)]
dist.all_gather(got, torch.tensor([rank * 10], device="cuda"))
assert [t.item() for t in got] == [0, 10]
unknown = torch.randn(1 << 20, device="cuda").sum() if rank == 0 else torch.ones((), device="cuda")
dist.all_reduce(unknown)
assert not locus.is_known(unknown)  # of one rank it was not known
dist.broadcast(unknown, 1) if rank else dist.broadcast(unknown, 1)
"""


def test_dry_ranks_exchange_what_is_small_and_known(tmp_path):
    report, done = check(tmp_path, DRY_RANKS, "--nproc", "2", "--memory", "200GiB")
    assert done.returncode == 0, done.stderr
    assert not report["findings"] and report["program"]["ranks"] == 2


ALL_CALLS = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("cpu:gloo,cuda:nccl")
rank, world = dist.get_rank(), dist.get_world_size()
assert world == 1024
mesh = init_device_mesh("cuda", (128, 8), mesh_dim_names=("dp", "tp"))
assert torch.cuda.current_device() == rank % 8
tp = mesh.get_group("tp")
assert dist.get_rank(tp) == rank % 8 and dist.get_world_size(tp) == 8
large = torch.empty(8 << 20, dtype=torch.float32, device="cuda")
part = torch.empty(1 << 20, device="cuda")
dist.all_reduce(large)
dist.all_gather_into_tensor(large, part, group=tp)
dist.reduce_scatter_tensor(part, large, group=tp)
dist.all_to_all_single(large.clone(), large, group=tp)
dist.broadcast(large, 0)
count = torch.tensor([3], device="cuda")
dist.all_reduce(count, group=tp)
assert count.item() == 24, count                      # as if all had given the same
on_host = torch.tensor([2])
dist.all_reduce(on_host)
assert on_host.item() == 2048
dist.barrier()
dist.monitored_barrier(dist.new_group(backend="gloo"))
objects = [None] * 8
dist.all_gather_object(objects, {"rank": rank}, group=tp)
assert objects == [{"rank": rank}] * 8
told = [{"from": rank}]
dist.broadcast_object_list(told, src=0)
assert told == [{"from": 0}], told                    # rank 0 runs, and what it says is heard
if rank == 0:
    dist.send(large, 1)
elif rank == 1:
    dist.recv(large, 0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda(), device_ids=[rank % 8])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(4, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("never reached: two steps are enough")
"""


def test_some_ranks_stand_for_all(tmp_path):
    report, done = check(tmp_path, ALL_CALLS, "--nproc", "1024", "--ranks", "0,1,512")
    assert done.returncode == 0, done.stderr
    assert "never reached" not in done.stdout and not report["findings"]
    cluster = report["cluster"]
    assert (cluster["world"], cluster["hosts"], [each["rank"] for each in cluster["ranks"]]) == (1024, 128, [0, 1, 512])
    assert cluster["meshes"] == [{"names": ["dp", "tp"], "shape": [128, 8], "ranks": []}]
    assert all(each["peak"] > 32 << 20 for each in cluster["ranks"])
    assert [each["device"] for each in cluster["ranks"]] == ["cuda:0", "cuda:1", "cuda:0"]
    step = {each["call"]: each for each in cluster["traffic"]}
    assert step["all_reduce"]["bytes"] == 4 * (1024 * 1024 + 1024) and step["all_reduce"]["ranks"] == [0, 1, 512]
    assert any("taken to be the same at train.py" in each for each in cluster["unknown"])
    assert "3 of 1,024 ranks on 128 hosts ran" in done.stderr


PARTED = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % 8)
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
if rank == 511:
    dist.broadcast(x, 0)
else:
    dist.all_reduce(x)
"""


def test_sequences_are_compared(tmp_path):
    report, done = check(tmp_path, PARTED, "--nproc", "512", "--ranks", "0,511")
    assert done.returncode == 1, done.stderr
    (finding,) = report["findings"]
    assert finding["code"] == "LOC024" and finding["ranks"] == [0, 511]
    assert {finding["cause"]["line"], finding["uses"][0]["line"]} == {9, 11}
    assert "the `if rank == 511` at train.py:8" in finding["why"], finding


IN_A_GROUP = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % 8)
x = torch.ones(4, device="cuda")
even = dist.new_group(list(range(0, 512, 2)))
if rank == 510:
    dist.broadcast(x, 0, group=even)
else:
    dist.all_reduce(x, group=even)
dist.destroy_process_group()
"""


def test_groups_that_are_gone_at_the_end(tmp_path):
    report, done = check(tmp_path, IN_A_GROUP, "--nproc", "512", "--ranks", "0,510")
    assert [finding["code"] for finding in report["findings"]] == ["LOC024"], done.stderr
    assert {each["size"] for each in report["cluster"]["traffic"]} == {256}, report["cluster"]


def test_a_rank_that_does_not_come(tmp_path):
    text = PARTED.replace("dist.broadcast(x, 0)", "pass")
    report, done = check(tmp_path, text, "--nproc", "512", "--ranks", "0,511")
    assert done.returncode == 1, done.stderr
    assert [finding["code"] for finding in report["findings"]] == ["LOC025"]


def test_what_one_rank_alone_does_is_seen_beside_another(tmp_path):
    """Without a mesh: the first rank would never show that nobody comes to its barrier."""
    text = PARTED.replace("rank == 511", "rank == 0").replace("dist.broadcast(x, 0)", "dist.barrier()")
    report, done = check(
        tmp_path, text.replace("else:\n    dist.all_reduce(x)", ""), "--nproc", "512", "--ranks", "auto"
    )
    assert [each["rank"] for each in report["cluster"]["ranks"]] == [0, 511]
    (finding,) = report["findings"]
    assert (
        done.returncode == 1
        and finding["code"] in ("LOC024", "LOC025")
        and 9
        in {
            finding["cause"]["line"],
            finding["uses"][0]["line"],
        }
    ), finding


STEPPED = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank % 8)
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
    if rank == 0:
        loss = torch.ones(1, device="cuda")
        dist.all_reduce(loss)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_are_compared_up_to_the_step_at_which_they_were_ended(tmp_path):
    report, done = check(tmp_path, STEPPED, "--nproc", "16", "--ranks", "auto")
    assert done.returncode == 1, done.stderr
    (finding,) = report["findings"]
    assert finding["code"] == "LOC025" and finding["ranks"] == [0]
    assert "rank 15 made 2 optimizer steps without it" in finding["why"], finding
    assert "the `if rank == 0` at train.py:11" in finding["why"], finding
    assert any("a dry check ends after 2 optimizer steps" in each for each in report["notes"]), report["notes"]
    report, done = check(tmp_path, STEPPED.replace("if rank == 0", "if True"), "--nproc", "16", "--ranks", "auto")
    assert done.returncode == 0 and not report["findings"], done.stderr
    assert "a dry check ends after 2 optimizer steps" in done.stderr


@pytest.mark.slow
def test_ranks_that_step_at_their_own_pace_are_not_compared_by_steps(tmp_path):
    """Rank 0 has two optimizers, so that it was ended before it came to what the others did in as many steps."""
    text = STEPPED.replace("if rank == 0", "if True").replace(
        "    optimizer.step()\n", "    optimizer.step()\n    if rank == 0:\n        second.step()\n"
    ).replace("for step", "second = torch.optim.SGD(model.parameters(), 0.1)\nfor step")  # fmt: skip
    report, done = check(tmp_path, text, "--nproc", "16", "--ranks", "auto")
    assert done.returncode == 0 and not report["findings"], done.stderr


@pytest.mark.slow
def test_an_error_of_ranks_names_what_was_made_up_before_it(tmp_path):
    text = PARTED.split("x = ")[0] + (
        "x = torch.randn(4096, 512, device='cuda')\n"
        "counts = (x > 0).sum(0).tolist()\n"
        "x.t().split(counts[:2])\n"
    )  # fmt: skip
    report, done = check(tmp_path, text, "--nproc", "2")
    assert done.returncode == 1
    assert any("had made up what it read at train.py:7" in each for each in report["notes"]), report["notes"]


def test_ctrl_c_before_a_rank_has_said_anything(tmp_path):
    (tmp_path / "train.py").write_text("import time\nopen('here', 'w').close()\ntime.sleep(100)\n")
    command = [*LOCUS, "check", "--dry", "--nproc", "8", "--ranks", "auto", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as check:
        deadline = time.monotonic() + 60
        while not (tmp_path / "here").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        check.send_signal(signal.SIGINT)
        _, said = check.communicate(timeout=60)
    assert "in observe" not in said and "locus: " in said, said


def test_roles_are_found(tmp_path):
    """A Llama of a few layers on 2 × 2 × 2 ranks: fully_shard, tensor parallel, all roles by themselves."""
    done = run(
        "check", "--dry", "--nproc", "8", "--ranks", "auto", "--json", str(tmp_path / "r.json"), "--html",
        str(tmp_path / "r.html"), str(PROGRAMS / "llama.py"), "--size", "tiny", "--dp", "2", "--shard", "2", "--tp",
        "2", "--length", "64", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    roles = {each["rank"]: each["role"] for each in report["cluster"]["ranks"]}
    assert roles == {
        0: "first of all",
        1: "last of tp",
        2: "last of shard",
        4: "last of dp",
        7: "last of all",
    }
    spread = {each["placement"] for each in report["cluster"]["placements"]}
    assert any("dp: replicated" in each and "shard: split along 0" in each for each in spread), spread
    groups = {each["group"] for each in report["cluster"]["traffic"]}
    assert {"dp", "shard", "tp"} <= groups
    assert "<svg" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_a_pipeline(tmp_path):
    done = run(
        "check", "--dry", "--nproc", "8", "--ranks", "auto", "--json", str(tmp_path / "r.json"),
        str(PROGRAMS / "llama.py"), "--size", "tiny", "--pp", "4", "--dp", "1", "--shard", "1", "--tp", "2", "--length",
        "64", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    roles = {each["rank"]: each["role"] for each in report["cluster"]["ranks"]}
    assert {2: "stage 1 of pp", 4: "stage 2 of pp", 6: "stage 3 of pp"}.items() <= roles.items()
    assert {"send", "recv"} <= {each["call"] for each in report["cluster"]["traffic"]}


STAGES = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("nccl")
stages = int(sys.argv[1])
mesh = init_device_mesh("cuda", (stages, dist.get_world_size() // stages), mesh_dim_names=("pp", "tp"))
group, stage = mesh.get_group("pp"), mesh.get_local_rank("pp")
sizes = torch.zeros(2, dtype=torch.long, device="cuda")
if stage + 1 < stages:  # from the last one to the first
    dist.recv(sizes, group=group, group_src=stage + 1)
else:
    sizes += 3
if stage:
    dist.send(sizes + 1, group=group, group_dst=stage - 1)
assert sizes.tolist() == [2 + stages - stage] * 2, sizes
"""


@pytest.mark.slow
def test_stages_of_one_pipeline_stand_for_those_of_the_others(tmp_path):
    """What a rank waits for from one that does not run is what the rank at its place in another pipeline sends."""
    (tmp_path / "train.py").write_text(STAGES)
    done = run("check", "--dry", "--nproc", "12", "--ranks", "auto", "--json", "r.json", "train.py", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert [each["rank"] for each in report["cluster"]["ranks"]] == [0, 3, 4, 8, 11]
    assert any("taken to be the same at train.py" in each for each in report["cluster"]["unknown"])


RING = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
x, y = torch.full((3,), float(rank), device="cuda"), torch.empty(3, device="cuda")
sent = dist.P2POp(dist.isend, x, (rank + 1) % world)
for work in dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, y, (rank - 1) % world)]):
    work.wait()
assert y[0].item() == (rank - 1) % world, y
"""


@pytest.mark.slow
def test_a_ring_of_messages_without_a_mesh(tmp_path):
    report, done = check(tmp_path, RING, "--nproc", "4", "--ranks", "auto")
    assert done.returncode == 0 and not report["findings"], done.stderr
    assert [each["rank"] for each in report["cluster"]["ranks"]] == [0, 1, 2, 3]


@pytest.mark.slow
def test_ranks_that_all_receive_first_are_no_green(tmp_path):
    calls = "dist.recv(y, (rank - 1) % world)\ndist.send(x, (rank + 1) % world)\n"
    _, done = check(tmp_path, RING.partition("sent =")[0] + calls, "--nproc", "3", "--ranks", "auto")
    assert done.returncode == 2, done.stderr
    assert "ranks 0, 1, 2 waited for each other" in " ".join(done.stderr.split()), done.stderr


@pytest.mark.slow
def test_more_stages_than_ranks_that_run_at_one_time(tmp_path):
    (tmp_path / "train.py").write_text(STAGES)
    done = run("check", "--dry", "--nproc", "14", "--ranks", "auto", "train.py", "14", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


FAKED = """
import runpy, sys
import torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
plain = dist.init_process_group
dist.init_process_group = lambda backend: plain("fake", store=FakeStore(), rank=0, world_size=8)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
print("peak", torch.cuda.max_memory_allocated())
"""
WIDTHS = ["--size", "tiny", "--dp", "2", "--shard", "2", "--tp", "2", "--length", "512"]


@pytest.mark.slow
def test_the_peak_is_that_of_a_rank_with_values(tmp_path):
    """Against one rank with values, whose world PyTorch itself fakes."""
    (tmp_path / "fake.py").write_text(FAKED)
    llama = str(PROGRAMS / "llama.py")
    alone = subprocess.run(
        [*LOCUS, "run", "--devices", "8", "fake.py", llama, *WIDTHS],
        cwd=tmp_path, timeout=300, capture_output=True, text=True, env={**os.environ, "LOCAL_RANK": "0"},
    )  # fmt: skip
    assert alone.returncode == 0, alone.stderr
    peak = int(alone.stdout.split("peak ")[1])
    done = run("check", "--dry", "--nproc", "8", "--ranks", "0", "--json", "r.json", llama, *WIDTHS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (rank,) = json.loads((tmp_path / "r.json").read_text())["cluster"]["ranks"]
    assert abs(rank["peak"] - peak) <= 0.03 * peak, (rank["peak"], peak)
