"""Recurrent networks, and the other operators that Locus computes by code of its own, without values: no bytes, no
arithmetic, and the shapes and memory of the run with values."""

import pytest
from dry_running import locus

NETWORKS = """
    import resource, torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    BATCH, STEPS, WIDTH, HIDDEN = {sizes}
    def run(net, x, packed, first):
        if not packed:
            return net(x)
        lengths = torch.arange(BATCH, 0, -1).clamp(max=STEPS)
        out, state = net(pack_padded_sequence(x, lengths, batch_first=first))
        return pad_packed_sequence(out, batch_first=first)[0], state
    for kind in (nn.GRU, nn.LSTM, nn.RNN):
        for options in ({{}}, dict(bidirectional=True, batch_first=True), dict(bias=False)):
            for packed in (False, True):
                torch.cuda.reset_peak_memory_stats()
                net, first = kind(WIDTH, HIDDEN, num_layers=2, **options).cuda(), "batch_first" in options
                shape = (BATCH, STEPS, WIDTH) if first else (STEPS, BATCH, WIDTH)
                x = torch.randn(shape, device="cuda", requires_grad=True)
                out, state = run(net, x, packed, first)
                out.sum().backward()
                grads = [p.grad.shape for p in net.parameters()]
                with torch.no_grad():
                    again, _ = run(net, x, packed, first)
                state = state if isinstance(state, tuple) else (state,)
                print(kind.__name__, options, packed, out.shape, out.stride(), again.stride(), [s.shape for s in state])
                print(x.grad.stride(), grads, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())
                del net, x, out, state, again
    for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell):
        net, x, state = kind(WIDTH, HIDDEN).cuda(), torch.randn(BATCH, WIDTH, device="cuda"), None
        for step in range(3):
            state = net(x, state)
        state = state if isinstance(state, tuple) else (state,)
        state[0].sum().backward()
        print([s.shape for s in state], net.weight_hh.grad.shape, torch.cuda.memory_allocated())
        del net, x, state
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime < 60
"""


def test_recurrent_networks_have_the_shapes_and_memory_of_a_run_with_values(tmp_path):
    source = NETWORKS.format(sizes="6, 5, 8, 16")
    dry, _ = locus(tmp_path, "run", "--dry", "--dry-keep", "0", source=source, status=0)
    plain, _ = locus(tmp_path, "run", source=source, status=0)
    assert dry == plain and dry.count("\n") == 2 * 18 + 3


def test_large_recurrent_networks_need_neither_bytes_nor_arithmetic(tmp_path):
    """With values they take minutes and 10 GiB."""
    out, _ = locus(tmp_path, "run", "--dry", source=NETWORKS.format(sizes="256, 100, 1024, 2048"), status=0)
    assert out.count("torch.Size([100, 256, 2048])") >= 12


@pytest.mark.parametrize("options", [(), ("--dry-keep", "0")])
def test_products_in_another_type(tmp_path, options):
    out, _ = locus(
        tmp_path, "run", "--dry", *options,
        source="""
            import resource, torch, locus
            a = torch.empty(30000, 30000, dtype=torch.bfloat16, device="cuda")
            c = torch.mm(a, a, out_dtype=torch.float32)
            print(c.shape, c.dtype, locus.is_known(c), torch.cuda.memory_allocated() > 5 * 10**9)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_000_000
        """,
        status=0,
    )  # fmt: skip
    assert out.strip() == "torch.Size([30000, 30000]) torch.float32 False True"
