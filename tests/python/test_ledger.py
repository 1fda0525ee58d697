"""locus.ledger(), no_transfers(), no_syncs(): counts of a part of a program, by line."""

import pytest
from simulated import simulated


@simulated(devices=2)
def test_transfers_and_syncs_by_line():
    import torch

    import locus

    x = torch.ones(100)
    x.cuda()  # before: does not count
    with locus.ledger() as outer:
        for _ in range(3):
            y = x.to("cuda:0")
        with locus.ledger() as inner:
            y.to("cuda:1")
            float(y.sum())
        host = y.cpu()
        y.nonzero()
        inside = outer.count()
    host.cuda()  # after: does not count
    assert inside == outer.count() == 5 and inner.count() == 1
    assert outer.bytes("cpu", "cuda:0") == 1200 and outer.bytes(to="cuda:1") == 400 and outer.bytes(to="cpu") == 400
    assert outer.count("cuda", "cuda") == 1 and outer.count(from_=torch.device("cuda:0")) == 2
    assert next((row.count, row.bytes, row.from_, row.to) for row in outer.transfers) == (3, 1200, "cpu", "cuda:0")
    first = outer.transfers[0]
    with open(__file__) as file:
        assert first.file == __file__ and file.readlines()[first.line - 1].strip() == 'y = x.to("cuda:0")'
    assert first.function.endswith("test_transfers_and_syncs_by_line")
    assert [(row.kind, row.device) for row in inner.syncs] == [("item", "cuda:0")]
    assert {row.kind for row in outer.syncs} == {"item", "copy_", "nonzero"} and outer.sync_count() == 3
    assert "cpu -> cuda:0  3 times, 1200 bytes" in str(outer) and "waits for cuda:0  1 time (nonzero)" in str(outer)
    assert repr(inner) == "<ledger: 1 transfer (400 bytes), 1 sync>"


@simulated(devices=1)
def test_what_wraps_a_deprecated_call_is_no_line_of_the_program():
    import warnings

    import torch
    from torch.nn.utils import stateless

    import locus

    layer, x = torch.nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    assert not stateless.functional_call.__code__.co_filename.startswith(torch.__path__[0])  # else this shows nothing
    with warnings.catch_warnings(), locus.ledger() as ledger:
        warnings.simplefilter("ignore")
        result = stateless.functional_call(layer, dict(layer.named_parameters()), (x,))
    assert result.shape == (2, 4)
    assert {row.file for row in ledger.memory() if row.file} == {__file__}


@simulated(devices=2, history=False)
def test_peak_memory_by_line():
    import torch

    import locus

    held = torch.ones(1 << 20, device="cuda")
    torch.ones(64 << 20, device="cuda")  # a higher peak, but before
    with locus.ledger() as ledger:
        with locus.ledger() as small:
            torch.ones(1 << 18, device="cuda")
        big = torch.ones(4 << 20, device="cuda")
        del big
        assert ledger.peak("cuda:0") == 20 << 20
    assert ledger.peak() == ledger.peak("cuda") == 20 << 20 and ledger.peak("cuda:1") == 0
    assert small.peak() == 5 << 20
    rows = ledger.memory("cuda:0")
    assert [row.bytes for row in rows] == [16 << 20, 4 << 20]
    with open(__file__) as file:
        assert file.readlines()[rows[0].line - 1].strip() == 'big = torch.ones(4 << 20, device="cuda")'
    assert (rows[1].file, rows[1].line) == ("", 0), "held is older than the ledger"
    assert torch.cuda.max_memory_allocated() == 260 << 20, "the program's own statistics are its own"
    with pytest.raises(locus.errors.UsageError, match='Use one of "cuda:0", "cuda:1"'):
        ledger.peak("cuda:7")
    assert held.is_cuda


@simulated(devices=1)
def test_memory_that_is_older_than_the_ledger_has_its_line():
    """simulate() remembers where tensors come from."""
    import torch

    import locus

    held = torch.ones(1 << 20, device="cuda")
    with locus.ledger() as ledger:
        pass
    [row] = ledger.memory("cuda:0")
    with open(__file__) as file:
        assert file.readlines()[row.line - 1].strip() == 'held = torch.ones(1 << 20, device="cuda")'
    assert row.bytes == held.nbytes


@simulated(devices=1)
def test_assertions():
    import torch

    import locus

    x = torch.ones(10)
    y = x.cuda()
    with locus.no_transfers(), locus.no_syncs():
        y * 2 + 1
    with locus.no_transfers(to="cpu"):
        x.cuda()
    with pytest.raises(AssertionError, match=r"expected no transfers here, .* 2 transfers to cpu:\n.*\.py:"):
        with locus.no_transfers(to="cpu"):
            for _ in range(2):
                y.cpu()
    with pytest.raises(locus.errors.LedgerError, match=r"the host waited once:\n.*waits for cuda:0  1 time \(item\)"):
        with locus.no_syncs():
            if y.sum() > 3:
                pass
    with pytest.raises(KeyError), locus.no_transfers():
        y.cpu()
        raise KeyError("the block's own exception comes first")

    @locus.no_transfers()
    def step():
        return y.cpu()

    for _ in range(2):
        with pytest.raises(locus.errors.LedgerError):
            step()


@simulated(devices=1)
def test_what_locus_moves_is_marked():
    import torch

    import locus

    with locus.ledger() as ledger, locus.policy("move"):
        torch.ones(3, device="cuda") + torch.ones(3)
    assert [row.note for row in ledger.transfers] == ["moved by Locus"]


@simulated(devices=1)
def test_copies_that_are_not_pinned_are_marked():
    import torch

    import locus

    with locus.ledger() as ledger:
        torch.ones(3).to("cuda", non_blocking=True)
        torch.ones(5).pin_memory().to("cuda", non_blocking=True)
    assert [row.note for row in ledger.transfers] == ["non_blocking", "non_blocking, not pinned"]


@simulated(devices=1)
def test_threads_count():
    import threading

    import torch

    import locus

    with locus.ledger() as ledger:
        thread = threading.Thread(target=lambda: torch.ones(4).cuda())
        thread.start()
        thread.join()
    assert ledger.bytes() == 16


@simulated(devices=None)
def test_wrong_use():
    import locus

    with pytest.raises(locus.errors.UsageError, match=r"locus.no_transfers\(\) needs CUDA devices"):
        with locus.no_transfers():
            pass
    with pytest.raises(locus.errors.UsageError, match="has not begun"):
        _ = locus.ledger().transfers
    with pytest.raises(locus.errors.UsageError, match="'gpu' is not a device"):
        locus.no_transfers(to="gpu")
    locus.simulate()
    with locus.ledger() as ledger:
        pass
    with pytest.raises(locus.errors.UsageError, match="used before"), ledger:
        pass
