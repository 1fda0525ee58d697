"""Dry runs: programs without values have the findings, shapes and memory of runs with values, and say what they made
up. Each program runs in a process of its own, by the commands that people use."""

import subprocess
import sys

import pytest
from dry_running import DEADLINE, locus, report

LARGE = """
    import resource, torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(8192, 28672), nn.Linear(28672, 8192)
            self.table = torch.zeros(8192)
        def forward(self, x):
            return self.down(torch.relu(self.up(x))) + self.table
    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(5):
        x = torch.randn(512, 8192, device="cuda")
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        print(step, loss.item())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000
"""


def test_large_model_needs_neither_bytes_nor_arithmetic(tmp_path):
    found = report(tmp_path, "--dry", source=LARGE)
    assert [f["code"] for f in found["findings"]] == ["LOC003"]
    assert found["findings"][0]["cause"]["line"] == 8
    assert found["program"]["steps"] == 2, "a dry check ends after two steps"
    assert found["dry"]["keep"] == 64 << 10 and found["dry"]["shapes"] == "half"
    kinds = {row["kind"] for row in found["dry"]["made_up"]}
    assert kinds == {"value", "draw"}
    # Parameters, gradients, two moments, in single precision.
    assert found["memory"]["cuda:0"]["peak"] > 4 * 4 * 2 * 8192 * 28672
    _, said = locus(tmp_path, "check", "--dry", "program.py", status=1)
    assert "dry run: values made up at 1 line: program.py:17 (.item())" in said
    assert "a dry check ends after 2 optimizer steps" in said


def test_more_than_the_card_has_is_noted_and_goes_on(tmp_path):
    source = """
        import torch
        kept = [torch.empty(1 << 28, device="cuda") for _ in range(5)]
        print(torch.cuda.memory_allocated() >> 30)
    """
    out, said = locus(tmp_path, "check", "--dry", "--memory", "3GiB", source=source, status=1)
    assert out.strip() == "5"
    assert "error[LOC040]: cuda:0 has no room for another 1.00 GiB: 0 bytes of 3.00 GiB are free" in " ".join(
        said.split()
    )
    assert "dry run: out of memory at 1 line, by 2.0 GiB at most; it went on: program.py:3" in said
    _, said = locus(tmp_path, "run", "--dry", "--strict-memory", "--memory", "3GiB", source=source, status=1)
    assert "CUDA out of memory" in said


@pytest.mark.slow
def test_memory_that_hangs_on_made_up_shapes_is_not_decided(tmp_path):
    source = """
        import torch
        x = torch.randn(4096, 4096, device="cuda")
        chosen = (x > 0).nonzero()
        kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(chosen.shape[0] // 65536)]
    """
    _, said = locus(tmp_path, "check", "--dry", "--memory", "64GiB", source=source, status=2)
    said = " ".join(said.split())
    assert "LOC040" not in said
    assert "cuda:0 had no room for another 1.00 GiB at program.py:5, which may come of shapes" in said
    assert "made up at program.py:4 (nonzero())" in said
    locus(tmp_path, "check", "--dry", "--dry-shapes", "least", "--memory", "64GiB", "program.py", status=0)
    # With the smallest shapes there is no room either: that is a mistake.
    _, said = locus(tmp_path, "check", "--dry", "--dry-shapes", "least", "--memory", "63MiB", "program.py", status=1)
    assert "LOC040" in said


def test_an_error_names_what_was_made_up_before_it(tmp_path):
    source = """
        import torch
        x = torch.randn(4096, 512, device="cuda")
        counts = (x > 0).sum(0).tolist()
        x.t().split(counts[:2])
    """
    _, said = locus(tmp_path, "check", "--dry", source=source, status=1)
    said = " ".join(said.split())
    assert "the program ended with RuntimeError after the dry run had made up what it read at program.py:4" in said
    assert "[tool.locus.dry-answers]" in said
    _, said = locus(tmp_path, "check", source=source.replace("counts[:2]", "[1, 2]"), status=1)
    assert "made up" not in said


def test_places_along_a_dimension_are_as_many_as_it_has(tmp_path):
    out, _ = locus(
        tmp_path,
        "run",
        "--dry",
        source="""
        import torch
        scores = torch.randn(4096, 512, device="cuda")[:, :8]
        _, chosen = scores.topk(2, -1)
        assert chosen.unique().tolist() == list(range(8))
        values, places = torch.unique(chosen.flatten().clone(), return_inverse=True)
        assert values.tolist() == list(range(8)) and places.unique().numel() == 8
        assert scores.argmax(-1).unique().numel() == 8 and scores.sort(-1).indices.unique().numel() == 8
        assert torch.multinomial(scores.softmax(-1), 1).unique().numel() == 8
        assert torch.randint(5, (1 << 22,), device="cuda").unique().numel() == 5
        assert chosen.flatten().bincount().numel() == 8
        chosen[0] = 4000  # and now there is another
        assert chosen.unique().numel() == 4096
        print("done")
        """,
        status=0,
    )
    assert out.strip() == "done"


def test_what_one_side_decides_is_known(tmp_path):
    out, _ = locus(
        tmp_path,
        "run",
        "--dry",
        source="""
        import torch
        from locus import is_known
        large = torch.randn(4, 100000, device="cuda")
        flags, numbers, floats = large.argmax(-1) == 2, large.argmax(-1), large.sum(-1)
        yes, no = torch.ones(4, dtype=torch.bool, device="cuda"), torch.zeros(4, dtype=torch.bool, device="cuda")
        some = torch.tensor([True, False, True, True], device="cuda")
        assert not is_known(flags) and not is_known(numbers) and not is_known(floats)
        for known in (flags | yes, yes | flags, flags.logical_or(yes), flags.clone().logical_or_(yes)):
            assert is_known(known) and known.tolist() == [True] * 4
        for known in (flags & no, no & flags, flags.logical_and(no), numbers & 0, numbers * no, numbers & no):
            assert is_known(known) and known.tolist() == [0] * 4
        flags_in_place = large.argmax(-1) == 3
        flags_in_place &= False
        assert is_known(flags_in_place) and not flags_in_place.any()
        # What decides nothing, or only some elements; bits; and 0 times what may be infinite.
        for unknown in (flags | no, flags & yes, flags | some, numbers | 1, numbers | yes, floats * 0, numbers * 2):
            assert not is_known(unknown)
        assert torch.where(yes, torch.arange(4, device="cuda"), numbers).tolist() == [0, 1, 2, 3]
        assert torch.where(no, numbers, 7).tolist() == [7] * 4
        assert not is_known(torch.where(some, torch.arange(4, device="cuda"), numbers))
        assert not is_known(torch.where(flags, 1, 2)) and not is_known(torch.where(yes, numbers, 7))
        # The loop of a generation with a length limit ends there.
        unfinished, rounds = torch.ones(4, dtype=torch.long, device="cuda"), 0
        while True:
            rounds += 1
            ended = torch.isin(large.argmax(-1), torch.tensor([2], device="cuda"))
            unfinished = unfinished & ~(ended | torch.full((4,), rounds >= 12, device="cuda"))
            if unfinished.max() == 0:
                break
        print(rounds)
        """,
        status=0,
    )
    assert out.strip() == "12"


def test_known_values_stay_known(tmp_path):
    out, _ = locus(
        tmp_path,
        "run",
        "--dry",
        source="""
        import torch, locus
        lengths = torch.tensor([3, 1, 2], device="cuda")
        assert locus.is_known(lengths) and lengths.sum().item() == 6
        assert lengths.cumsum(0).tolist() == [3, 4, 6]
        assert torch.arange(5, device="cuda")[torch.arange(5, device="cuda") > 2].tolist() == [3, 4]
        large = torch.randn(1000, 1000, device="cuda")
        assert not locus.is_known(large) and not locus.is_known(large.sum())
        # What overwrites all of it is known again.
        total = large.sum()
        total.zero_()
        assert locus.is_known(total) and total.item() == 0
        # In a healthy run all is finite.
        assert torch.isfinite(large).all().item() and not torch.isnan(large).any().item()
        assert not torch.isinf(large.sum()).item()
        # A program may say what it knows.
        assert locus.known(large.mean(), 0.25).item() == 0.25
        # Host data is host data.
        data = torch.tensor(list(range(200_000)))
        assert locus.is_known(data) and data[199_999].item() == 199_999
        assert data.float().to("cuda").shape == (200_000,)
        assert torch.ones(3).sum().item() == 3 and torch.randperm(50_000).sum().item() == 50_000 * 49_999 // 2
        print("done")
    """,
        status=0,
    )
    assert out.strip() == "done"


def test_unknown_values_are_made_up_and_listed(tmp_path):
    found = report(
        tmp_path,
        "--dry",
        source="""
        import torch
        x = torch.randn(300, 300, device="cuda")
        a = x.mean().item()
        assert a == x.mean().item() and a == a and abs(a) < 1e6
        b = x[0, :3].tolist()
        c = x[:2, :2].cpu().numpy()
        if x.sum() > 0: pass
        text = f"{x.mean():.3f} {x}"
        rows = x[x[:, 0] > 0]
        where = torch.nonzero(x > 0)
        print(len(b), c.shape, rows.shape, where.shape)
    """,
    )
    lines = {(row["kind"], row["line"]) for row in found["dry"]["made_up"]}
    assert {("value", 4), ("value", 5), ("value", 6), ("value", 7), ("value", 8), ("value", 9)} <= lines
    assert {("shape", 10), ("shape", 11)} <= lines


@pytest.mark.parametrize(("shapes", "rows"), [("half", 150), ("most", 300), ("least", 1)])
def test_shapes_that_hang_on_values(tmp_path, shapes, rows):
    out, _ = locus(
        tmp_path,
        "run",
        "--dry",
        "--dry-shapes",
        shapes,
        source="""
        import torch
        x = torch.randn(300, 300, device="cuda")
        mask = x[:, 0] > 0
        print(x[mask].shape[0], mask.nonzero().shape[0], torch.masked_select(x[:, 1], mask).shape[0])
        print(x[:, 0].unique().shape[0])
    """,
        status=0,
    )
    assert out.split() == [str(rows)] * 4


def test_host_models_pass_through(tmp_path):
    out, _ = locus(
        tmp_path,
        "run",
        "--dry",
        source="""
        import copy, resource, torch
        from torch import nn
        model = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(12)])       # 3.2 GB, on the host
        ema = copy.deepcopy(model)
        torch.save(model.state_dict(), "model.pt")
        other = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(12)])
        other.load_state_dict(torch.load("model.pt", weights_only=True))
        other.to("cuda")(torch.randn(4, 8192, device="cuda"))
        assert torch.cuda.memory_allocated() > 12 * 4 * 8192 * 8192
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000, resource.getrusage(resource.RUSAGE_SELF)
        print(sum(p.numel() for p in ema.parameters()))
    """,
        status=0,
    )
    assert out.strip() == str(12 * (8192 * 8192 + 8192))


def test_distributions_with_unknown_parameters(tmp_path):
    """What is drawn for real is drawn from parameters that are none: they must be such that there is a distribution."""
    out, said = locus(
        tmp_path, "run", "--dry",
        source="""
            import torch
            rows = torch.randn(40, 30000, device="cuda")
            share = rows.softmax(1).masked_fill(rows < 0, 0.0)
            print(torch.multinomial(share, 1).shape, torch.bernoulli(share).shape, torch.poisson(share).shape)
            print(torch.normal(rows, share).shape, torch.bernoulli(torch.empty(2000, 2000).normal_()).shape)
            experts = torch.topk(rows, 2).indices.reshape(-1)
            print(torch.bincount(experts, minlength=8).shape)
        """,
        status=0,
    )  # fmt: skip
    sizes = [line.split("torch.Size") for line in out.splitlines()]
    assert [len(each) for each in sizes] == [4, 3, 2] and out.endswith("torch.Size([8])\n"), out + said


def test_new_tensors_of_unknown_ones(tmp_path):
    out, _ = locus(
        tmp_path, "run", "--dry",
        source="""
            import torch
            table = torch.empty(3000, 3000, dtype=torch.float64).normal_()
            print(table.new_tensor([1.5, 2]).tolist(), table.new_tensor(2, device="cpu").dtype, table.new(2, 3).shape)
            print(torch.nn.init.trunc_normal_(table).shape, table.new_zeros(2).tolist())
        """,
        status=0,
    )  # fmt: skip
    assert out.splitlines() == [
        "[1.5, 2.0] torch.float64 torch.Size([2, 3])", "torch.Size([3000, 3000]) [0.0, 0.0]"
    ]  # fmt: skip


def test_what_a_program_asks_to_be_sure_of_holds(tmp_path):
    """Validation of distributions, assertions on all elements: True in a healthy run, and listed as made up."""
    out, said = locus(
        tmp_path, "check", "--dry",
        source="""
            import torch
            mean = torch.randn(300, 300, device="cuda")
            normal = torch.distributions.Normal(mean, mean.exp())
            host = torch.empty(3000, 3000).normal_()
            assert (mean.exp() > 0).all() and (host.exp() > 0).all() and not (mean > 9).any()
            print(normal.log_prob(normal.sample()).shape)
        """,
        status=0,
    )  # fmt: skip
    assert out == "torch.Size([300, 300])\n"
    assert "values made up at 3 lines: program.py:4" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dry", "--dry-keep", "lots"), "--dry-keep='lots' is not a size"),
        (("--dry", "--dry-shapes", "some"), "--dry-shapes='some' is not known"),
        (("--dry-keep", "1MiB"), "--dry-keep needs --dry"),
        (("--strict-memory",), "--strict-memory needs --dry"),
    ],
)
def test_bad_input(tmp_path, arguments, words):
    _, said = locus(tmp_path, "check", *arguments, source="import torch", status=2)
    assert words in said


def test_the_environment_asks_for_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.empty(1 << 36, device='cuda:1').shape)"],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
        env={"LOCUS_SIMULATE": "cuda:2,dry", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "torch.Size([68719476736])", done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "locus", "run", "-c", "0"],
        capture_output=True, text=True, timeout=DEADLINE, check=False,
        env={"LOCUS_SIMULATE": "cuda:2,wet", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "'wet' is not known" in done.stderr


GRAPH = """
    import resource, torch
    model = torch.nn.Sequential(torch.nn.Linear(8192, 16384), torch.nn.ReLU(), torch.nn.Linear(16384, 8192)).cuda()
    static, counter = torch.randn(4096, 8192, device="cuda"), torch.zeros((), device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(static).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter += 1
        model(static).sum().backward()
    for step in range(3):
        static.copy_(torch.randn(4096, 8192, device="cuda"))
        graph.replay()
    assert counter.item() == 3, counter
    print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def test_a_graph_is_captured_and_replayed_without_values(tmp_path):
    """What is small has its values; what is large costs no memory of the host's: with values it is 3 GiB."""
    out, _ = locus(tmp_path, "check", "--dry", source=GRAPH, status=0)
    assert int(out.split("PEAK")[1].split()[0]) < 1000, out
