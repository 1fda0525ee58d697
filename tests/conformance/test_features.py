# ruff: noqa: E501
"""What ordinary programs reach beyond the common path: each works on a simulated device, or says by name that it doesn't.

docs/simulated.md names these tests; python/locus/surface/simulated.py is its source.
"""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from simulated import simulated
from torch import nn

CUDA = "cuda:0"


def train_both(module, *inputs):
    """(results, gradients) of the module on the device and of its copy on the CPU."""
    found = []
    for device in (CUDA, "cpu"):
        twin = copy.deepcopy(module).to(device)
        result = twin(*(x.to(device) for x in inputs))
        first = result[0] if isinstance(result, tuple) else result
        first.float().square().sum().backward()
        found.append([first.detach(), *(p.grad for p in twin.parameters() if p.grad is not None)])
        assert all(t.device.type == torch.device(device).type for t in found[-1])
    return found


def assert_same(module, *inputs, close=False):
    for there, here in zip(*train_both(module, *inputs)):
        if close:
            torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
        else:
            assert torch.equal(there.cpu(), here)


@simulated(devices=1)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent(kind):
    torch.manual_seed(0)
    options = [{}, {"bidirectional": True}, {"num_layers": 2}, {"batch_first": True}, {"bias": False}]
    options += [{"proj_size": 3}, {"proj_size": 3, "bidirectional": True}] if kind == "LSTM" else []
    options += [{"nonlinearity": "relu"}] if kind == "RNN" else []
    for option in options:
        module, x = getattr(nn, kind)(4, 5, **option), torch.randn(3, 2, 4)
        assert_same(module, x, close=True)
        lengths = torch.tensor([2, 2, 1] if option.get("batch_first") else [3, 1])
        packed = nn.utils.rnn.pack_padded_sequence(x.to(CUDA), lengths, batch_first=option.get("batch_first", False))
        output, _ = module.to(CUDA)(packed)
        padded, back = nn.utils.rnn.pad_packed_sequence(output)
        padded.sum().backward()
        assert padded.is_cuda and back.tolist() == lengths.tolist()
    cell = getattr(nn, kind + "Cell")(4, 5)
    assert_same(cell, torch.randn(2, 4), close=True)
    with pytest.raises(RuntimeError, match=r"lengths.*1D CPU int64 tensor"):
        nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4, device=CUDA), torch.tensor([3, 1], device=CUDA))


@simulated(devices=1)
def test_sequence_helpers():
    pieces = [torch.arange(n, dtype=torch.float32, device=CUDA) for n in (3, 2)]
    padded = nn.utils.rnn.pad_sequence(pieces, batch_first=True)
    assert padded.is_cuda and padded.tolist() == [[0, 1, 2], [0, 1, 0]]
    packed = nn.utils.rnn.pack_sequence(pieces)
    assert packed.data.is_cuda and not packed.batch_sizes.is_cuda
    assert [t.tolist() for t in nn.utils.rnn.unpack_sequence(packed)] == [[0, 1, 2], [0, 1]]


@simulated(devices=1)
def test_sparse():
    indices, values = torch.tensor([[0, 1], [1, 2]], device=CUDA), torch.tensor([1.0, 2.0], device=CUDA)
    coo = torch.sparse_coo_tensor(indices, values, (3, 3)).requires_grad_()
    dense = torch.eye(3, device=CUDA)
    assert (coo @ dense).equal(coo.to_dense()) and torch.sparse.mm(coo, dense).is_cuda
    torch.sparse.mm(coo, dense).sum().backward()
    assert coo.grad.is_sparse and coo.grad.is_cuda
    csr = coo.detach().to_sparse_csr()
    assert csr.is_cuda and (csr @ dense).equal(coo.detach().to_dense()) and csr.to_dense().is_cuda
    made = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2), device=CUDA)
    assert made.crow_indices().is_cuda and made.to_dense().tolist() == [[1, 0], [0, 1]]
    table = nn.Embedding(5, 3, sparse=True).to(CUDA)
    optimizer = torch.optim.SparseAdam(table.parameters())
    before = table.weight.detach().clone()
    table(torch.tensor([1, 1, 2], device=CUDA)).sum().backward()
    assert table.weight.grad.is_sparse
    optimizer.step()
    assert (before != table.weight).any(1).tolist() == [False, True, True, False, False]


@simulated(devices=2)
def test_sparse_away_from_the_current_device():
    coo = torch.eye(3).to_sparse().to("cuda:1")
    assert coo.device == torch.device("cuda:1") and coo.values().device == coo.device
    assert (coo @ torch.ones(3, 2, device="cuda:1")).device == coo.device
    assert (coo + coo).coalesce().to("cuda:0").device == torch.device("cuda:0")
    assert torch.eye(3, device="cuda:1").to_sparse_csr().device == coo.device


@simulated(devices=1)
def test_nested():
    torch.manual_seed(0)
    pieces = [torch.ones(2, 3), torch.full((4, 3), 2.0)]
    nested = torch.nested.nested_tensor(pieces, device=CUDA)
    assert nested.is_cuda and (nested * 2).to_padded_tensor(0.0).sum().item() == 2 * 6 + 4 * 12
    assert all(piece.is_cuda for piece in nested.unbind())
    jagged = torch.nested.nested_tensor(pieces, device=CUDA, layout=torch.jagged)
    assert nn.Linear(3, 2).to(CUDA)(jagged).values().shape == (6, 2)
    # In inference, a Transformer encoder makes nested tensors of padded ones by itself.
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]])
    with torch.inference_mode():
        here = encoder(x, src_key_padding_mask=mask)
        there = encoder.to(CUDA)(x.to(CUDA), src_key_padding_mask=mask.to(CUDA))
    torch.testing.assert_close(there.cpu(), here)


@simulated(devices=1)
def test_quantized_is_refused_by_name():
    for make in (
        lambda: torch.quantize_per_tensor(torch.ones(3, device=CUDA), 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).to(CUDA),
    ):
        with pytest.raises(NotImplementedError, match=r"locus: .*quantized tensors"):
            make()
    assert torch.fake_quantize_per_tensor_affine(torch.ones(3, device=CUDA), 0.1, 0, 0, 255).is_cuda


@simulated(devices=1)
def test_half_precision():
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        module = nn.Sequential(
            nn.Conv2d(2, 3, 3),
            nn.BatchNorm2d(3),
            nn.GroupNorm(1, 3),
            nn.Flatten(),
            nn.LayerNorm(108),
            nn.Linear(108, 2),
        ).to(dtype)
        assert_same(module, torch.randn(2, 2, 8, 8, dtype=dtype))
        attention = nn.MultiheadAttention(8, 2).to(dtype)
        assert_same(attention, *[torch.randn(3, 1, 8, dtype=dtype)] * 3, close=dtype == torch.float16)
        a = torch.randn(4, 4, dtype=dtype)
        assert torch.equal((a.to(CUDA) @ a.to(CUDA)).cpu(), a @ a)
        if hasattr(torch.ops.aten.mm, "dtype"):  # since 2.8
            assert torch.mm(a.to(CUDA), a.to(CUDA), out_dtype=torch.float32).dtype == torch.float32


@simulated(devices=1)
def test_attention_backends():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        q = torch.randn(2, 2, 8, 16, device=CUDA, dtype=dtype, requires_grad=True)
        for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
            assert q.grad.is_cuda and q.grad.isfinite().all()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q, q, q)
    asked = torch.backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    for can_use in ("flash", "efficient", "cudnn"):  # a card's own kernels, that is
        assert not getattr(torch.backends.cuda, f"can_use_{can_use}_attention")(asked)


@simulated(devices=1)
def test_flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q = torch.randn(1, 2, 16, 16, device=CUDA, requires_grad=True)
    result = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score * 0.5)
    result.sum().backward()
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device=CUDA)
    causal = flex_attention(q, q, q, block_mask=mask)
    expected = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.testing.assert_close(causal, expected)
    assert q.grad.is_cuda


@simulated(devices=1)
def test_images_sequences_bags():
    torch.manual_seed(0)
    image, grid = torch.randn(1, 2, 5, 5), torch.rand(1, 4, 4, 2) * 2 - 1
    for mode, corners in itertools.product(("bilinear", "nearest", "bicubic"), (True, False)):
        here = F.grid_sample(image, grid, mode=mode, align_corners=corners)
        assert torch.equal(F.grid_sample(image.to(CUDA), grid.to(CUDA), mode=mode, align_corners=corners).cpu(), here)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        assert torch.equal(
            F.interpolate(image.to(CUDA), size=7, mode=mode).cpu(), F.interpolate(image, size=7, mode=mode)
        )
    probabilities, targets = torch.randn(6, 2, 5).log_softmax(2), torch.ones(2, 3, dtype=torch.long)
    here = F.ctc_loss(probabilities, targets, (6, 6), (3, 2))
    assert torch.equal(F.ctc_loss(probabilities.to(CUDA), targets.to(CUDA), (6, 6), (3, 2)).cpu(), here)
    assert F.ctc_loss(probabilities.to(CUDA), targets, torch.tensor([6, 6]), torch.tensor([3, 2])).is_cuda
    for mode in ("sum", "mean", "max"):
        bag = nn.EmbeddingBag(5, 3, mode=mode)
        assert_same(bag, torch.tensor([1, 2, 3]), torch.tensor([0, 2]))


@simulated(devices=1)
def test_fft_linalg_complex():
    torch.manual_seed(0)
    a, z = torch.randn(4, 4), torch.randn(4, 4, dtype=torch.complex64)
    for function in (torch.fft.fft2, torch.fft.rfft, torch.linalg.svdvals, torch.linalg.inv, torch.linalg.eigvals):
        assert torch.equal(function(a.to(CUDA)).cpu(), function(a))
    for function in (
        torch.fft.ifft,
        torch.linalg.inv,
        lambda x: x.abs(),
        lambda x: (x @ x.mH).real,
        torch.view_as_real,
    ):
        assert torch.equal(function(z.to(CUDA)).cpu(), function(z))


@simulated(devices=1)
def test_checkpointing():
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)).to(CUDA)
    x, gradients = torch.randn(8, 4, device=CUDA, requires_grad=True), []
    for run in (
        module,
        lambda x: checkpoint(module, x, use_reentrant=True),
        lambda x: checkpoint(module, x, use_reentrant=False),
        lambda x: checkpoint_sequential(module, 2, x, use_reentrant=False),
    ):
        torch.cuda.manual_seed(1)  # the recomputation must draw the same mask
        module.zero_grad()
        run(x).sum().backward()
        gradients.append(module[0].weight.grad.clone())
    assert all(torch.equal(g, gradients[0]) for g in gradients)


@simulated(devices=1)
def test_func():
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    x = torch.linspace(0.1, 1, 3, device=CUDA)
    assert torch.equal(vmap(grad(lambda v: (v**2).sum()))(x[:, None]), 2 * x[:, None])
    assert torch.equal(jvp(torch.sin, (x,), (torch.ones_like(x),))[1], x.cos())
    assert torch.equal(vjp(torch.sin, x)[1](torch.ones_like(x))[0], x.cos())
    assert torch.equal(jacrev(torch.sin)(x), jacfwd(torch.sin)(x)) and hessian(lambda v: (v**3).sum())(x).is_cuda
    module = nn.Linear(3, 2).to(CUDA)
    doubled = {name: 2 * p for name, p in module.named_parameters()}
    assert torch.equal(functional_call(module, doubled, (x,)), F.linear(x, 2 * module.weight, 2 * module.bias))
    drawn = vmap(lambda v: torch.rand((), device=CUDA) + 0 * v, randomness="different")(x)
    assert drawn.unique().numel() == 3


@simulated(devices=1)
def test_jit_and_export():
    module, x = (
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4)).to(CUDA).eval(),
        torch.ones(2, 3, device=CUDA),
    )
    expected = module(x)
    scripted = torch.jit.script(module)
    for compiled in (
        torch.jit.trace(module, x),
        scripted,
        torch.jit.freeze(scripted),
        torch.export.export(module, (x,)).module(),
    ):
        for _ in range(3):  # TorchScript optimizes at the second and third call
            assert torch.equal(compiled(x), expected)


@simulated(devices=1)
def test_custom_operators():
    @torch.library.custom_op("locus_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_autograd(lambda context, gradient: gradient * 2)
    x = torch.ones(2, device=CUDA, requires_grad=True)
    twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2] and x.grad.is_cuda
    library = torch.library.Library("locus_tests_cpu", "DEF")
    library.define("shifted(Tensor x, Tensor by) -> Tensor")
    library.impl("shifted", lambda x, by: x + by, "CPU")
    assert torch.ops.locus_tests_cpu.shifted(x.detach(), x.detach()).tolist() == [2, 2]


@simulated(devices=1)
def test_dlpack_and_array_interface():
    import numpy

    x = torch.arange(4.0, device=CUDA)
    again = torch.from_dlpack(x)
    assert again.is_cuda and again.data_ptr() == x.data_ptr() and tuple(x.__dlpack_device__()) == (2, 0)
    interface = x.__cuda_array_interface__
    assert interface["data"][0] == x.data_ptr() and interface["shape"] == (4,)
    taken = torch.as_tensor(type("Array", (), {"__cuda_array_interface__": interface})(), device=CUDA)
    assert taken.tolist() == [0, 1, 2, 3]
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):  # the latter from NumPy 2.5 on
        numpy.from_dlpack(x)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        numpy.asarray(x)


@simulated(devices=2)
def test_comm():
    from torch.cuda import comm

    x = torch.arange(8.0, device=CUDA).view(4, 2)
    assert [t.get_device() for t in comm.broadcast(x, [0, 1])] == [0, 1]
    pieces = comm.scatter(x, [0, 1])
    assert torch.equal(comm.gather(pieces, destination=0), x)
    assert torch.equal(comm.reduce_add([x, x.to("cuda:1")]), 2 * x)
    assert [t[0].get_device() for t in comm.broadcast_coalesced([x], [0, 1])] == [0, 1]
    assert torch.equal(comm.reduce_add_coalesced([[x], [x.to("cuda:1")]])[0], 2 * x)


@simulated(devices=1)
def test_parametrizations_and_pruning():
    from torch.nn.utils import parametrizations, prune

    makers = [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal]
    for make in (*makers, nn.utils.spectral_norm, nn.utils.weight_norm):
        module = make(nn.Linear(4, 4).to(CUDA))
        module(torch.ones(2, 4, device=CUDA)).sum().backward()
        assert module.weight.is_cuda
    pruned = prune.l1_unstructured(nn.Linear(2, 2).to(CUDA), "weight", 1)
    assert pruned.weight_mask.is_cuda and pruned.weight_mask.sum() == 3
    assert nn.utils.clip_grad_norm_([torch.nn.Parameter(torch.ones(2, device=CUDA))], 1.0).numel() == 1
    averaged = torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2).to(CUDA))
    averaged.update_parameters(nn.Linear(2, 2).to(CUDA))
    assert nn.utils.parameters_to_vector(averaged.parameters()).is_cuda


@simulated(devices=1, rng="cpu")
def test_distributions():
    import torch.distributions as D

    def made(one):
        zero, eye = 0 * one, torch.eye(3, device=one.device)
        return [
            D.Normal(zero, one), D.Bernoulli(one / 2), D.Categorical(one), D.Gamma(one, one), D.Beta(one, one),
            D.Dirichlet(one), D.MultivariateNormal(one, eye), D.Uniform(zero, one), D.Exponential(one), D.Laplace(zero, one),
            D.StudentT(one), D.Poisson(one), D.Multinomial(4, one), D.Geometric(one * 0.3), D.Cauchy(zero, one),
            D.VonMises(zero, one), D.Binomial(3, one / 2), D.LogNormal(one, one), D.Gumbel(one, one), D.Weibull(one, one),
            D.RelaxedOneHotCategorical(one[0], one), D.Independent(D.Normal(zero, one), 1), D.Wishart(4 * one[0], eye),
        ]  # fmt: skip

    for there, here in zip(made(torch.ones(3, device=CUDA)), made(torch.ones(3))):
        torch.manual_seed(0)
        a = there.sample()
        torch.manual_seed(0)
        b = here.sample()
        assert a.is_cuda and torch.equal(a.cpu(), b), there
        assert torch.equal(there.log_prob(a).cpu(), here.log_prob(b)), there
    one = torch.ones(3, device=CUDA)
    assert D.kl_divergence(D.Normal(0 * one, one), D.Normal(one, one)).tolist() == [0.5] * 3


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index**2


@simulated(devices=1)
def test_data():
    from torch.utils import data

    weights = data.WeightedRandomSampler([1.0] * 10, 6, generator=torch.Generator().manual_seed(0))
    parts = data.random_split(Squares(), [7, 3], generator=torch.Generator().manual_seed(0))
    for dataset, options in (
        (Squares(), {}),
        (Squares(), {"num_workers": 2, "pin_memory": True, "persistent_workers": True}),
        (Squares(), {"sampler": weights, "pin_memory": True}),
        (data.ConcatDataset(parts), {"batch_sampler": data.BatchSampler(data.SequentialSampler(Squares()), 4, False)}),
        (data.Subset(Squares(), range(5)), {}),
        (data.TensorDataset(torch.arange(10.0, device=CUDA)[:, None], torch.arange(10, device=CUDA) ** 2), {}),
    ):
        size = {} if "batch_sampler" in options else {"batch_size": 4}
        for x, y in data.DataLoader(dataset, **size, **options):
            there = x.to(CUDA, non_blocking=True)
            assert there.is_cuda and torch.equal(there[:, 0].long() ** 2, y.to(CUDA))
            assert x.is_pinned() == bool(options.get("pin_memory"))
