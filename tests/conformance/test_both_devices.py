"""Small programs that run on a simulated device and on the CPU: the results are the same, bit for bit.

Each is given a device and gives back tensors. What must differ in the last bits (PyTorch takes another path for CUDA
tensors) has a test in test_features.py.
"""

import copy
import functools
import io
import pathlib
import sys

import torch
import torch.nn.functional as F
from simulated import simulated
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # for the processes in which the programs run

import comparing

CUDA = "cuda:0"


def on_both(program):
    """The test: the program on either device, from the same state of the generator."""

    def test():
        found = []
        for device in (CUDA, "cpu"):
            torch.manual_seed(0)
            found.append(program(device))
        comparing.compare(*found)

    test.__name__ = test.__qualname__ = program.__name__
    return simulated(devices=1, rng="cpu")(test)


def gradients_of(result, *inputs):
    return [result.detach(), *torch.autograd.grad(result.sum(), inputs)]


@on_both
def test_fused_optimizers(device):
    found = []
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        module = nn.Linear(4, 3).to(device)
        optimizer = kind(module.parameters(), lr=0.01, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            module(torch.ones(2, 4, device=device)).square().sum().backward()
            optimizer.step()
        states = [list(state.values()) for state in optimizer.state.values()]
        found.append([p.detach() for p in module.parameters()] + states)
    return found


@on_both
def test_writes_are_counted(device):
    """By the number of writes autograd knows that an operand has changed."""
    x, y = torch.ones(3, device=device), torch.ones(3, device=device)
    torch._foreach_add_([x, y], 1)
    torch._foreach_copy_([x], [y])
    x.mul_(2)
    x.view(3)[0] = 5
    torch.add(x, y, out=y)
    weight = torch.ones(3, device=device, requires_grad=True)
    product = weight * x
    torch._foreach_mul_([x], 2)
    try:
        product.sum().backward()
    except RuntimeError as error:
        said = "modified by an inplace operation" in str(error)
    else:
        said = "nothing"
    return x._version, y._version, said


@on_both
def test_deterministic_algorithms(device):
    torch.use_deterministic_algorithms(True)
    try:
        x, index = torch.randn(5).to(device), torch.tensor([0, 1, 1, 2, 0]).to(device)
        zeros = torch.zeros(3, device=device)
        unset = [
            torch.empty(3, device=device),
            torch.empty_like(index),
            torch.empty_strided((2, 2), (1, 2), device=device),
        ]
        return [zeros.index_add(0, index, x), zeros.scatter_add(0, index, x), zeros.index_put((index,), x), *unset]
    finally:
        torch.use_deterministic_algorithms(False)


@on_both
def test_attention_by_parts(device):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(2, 4, 6, 8).to(device).requires_grad_() for _ in range(3))
    allowed, bias = torch.ones(6, 6, dtype=torch.bool).tril().to(device), torch.randn(6, 6).to(device)
    shared = torch.randn(2, 2, 6, 8).to(device)
    with sdpa_kernel(SDPBackend.MATH):
        found = [
            gradients_of(F.scaled_dot_product_attention(q, k, v, **options), q, k, v)
            for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": allowed}, {"attn_mask": bias})
        ]
        found.append(F.scaled_dot_product_attention(q, shared, shared, enable_gqa=True).detach())
    return found


@on_both
def test_flex_attention_with_a_bias(device):
    from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention

    q, k, v, bias = (torch.randn(shape).to(device) for shape in [(1, 2, 16, 8)] * 3 + [(2,)])
    near = create_block_mask(lambda b, h, i, j: (i - j).abs() < 5, 1, 1, 16, 16, device=device)
    return [
        flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + bias[h] * (i - j)),
        flex_attention(q, k, v, block_mask=near),
        create_mask(lambda b, h, i, j: i >= j, 1, 1, 4, 4, device=device),
    ]


@on_both
def test_forward_mode(device):
    from torch.autograd import forward_ad
    from torch.func import hessian, jacfwd, jvp, linearize

    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4)).to(device)
    x = torch.randn(2, 3).to(device)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(module(forward_ad.make_dual(x, torch.full_like(x, 0.5))))
    result, tangent_of = linearize(module, x)
    found = [*dual, *jvp(module, (x,), (torch.ones_like(x),)), result, tangent_of(x), jacfwd(module)(x[0])]
    return [t.detach() for t in [*found, hessian(lambda v: module(v).square().sum())(x[0])]]


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return {"y": self.linear(x) + self.shift + torch.arange(x.shape[0], device=x.device)[:, None]}


@on_both
def test_export_with_any_batch(device):
    batch = torch.export.Dim("batch", min=2, max=64)
    module = Exported().to(device)
    exported = torch.export.export(module, (torch.randn(4, 3).to(device),), dynamic_shapes={"x": {0: batch}})
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    x = torch.randn(7, 3).to(device)
    programs = (exported, exported.run_decompositions(), torch.export.load(file))
    return [program.module()(x)["y"].detach() for program in programs]


@on_both
def test_selective_checkpointing(device):
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    def policy(context, operator, *args, **kwargs):
        saved = operator is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    weight, x = torch.randn(4, 4).to(device).requires_grad_(), torch.randn(3, 4).to(device)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    result = checkpoint(lambda v: torch.relu(v @ weight).sin(), x, use_reentrant=False, context_fn=contexts)
    found = gradients_of(result, weight)
    with torch.autograd.graph.save_on_cpu(pin_memory=device != "cpu"):
        kept = (x @ weight).exp()
    return found + gradients_of(kept, weight)


@on_both
def test_connectionist_classification(device):
    scores = torch.randn(10, 3, 6).log_softmax(2).to(device).requires_grad_()
    targets, lengths = torch.randint(1, 6, (3, 4)), torch.tensor([10, 8, 9])
    sizes = torch.tensor([4, 2, 3])
    found = []
    for reduction in ("none", "mean", "sum"):
        on_device = (targets.to(device), lengths.to(device), sizes.to(device))
        loss = F.ctc_loss(scores, *on_device, reduction=reduction, zero_infinity=reduction == "sum")
        found.append(gradients_of(loss, scores))
    in_a_row = torch.cat([row[:size] for row, size in zip(targets, sizes)])
    return [*found, F.ctc_loss(scores, in_a_row, lengths, sizes).detach()]


@on_both
def test_operators_that_come_and_go(device):
    """One operator's place in memory may be the next one's, who has other arguments."""
    found = []
    for number in range(12):
        with torch.library._scoped_library(f"locus_passing_{number % 3}", "DEF") as library:
            more = ", ".join(f"Tensor x{i}" for i in range(number % 4))
            library.define(f"plus(float by{', ' if more else ''}{more}, Tensor y) -> Tensor")
            operator = getattr(torch.ops, f"locus_passing_{number % 3}").plus
            x = torch.full((2,), float(number), device=device)
            try:
                operator.default(0.5, *[x] * (number % 4), x)
            except NotImplementedError:
                found.append("no kernel yet")
            library.impl("plus", lambda by, *tensors: sum(tensors) + by, "CPU")
            found.append(operator.default(0.5, *[x] * (number % 4), x))
    return found


@on_both
def test_ensembles(device):
    from torch.func import functional_call, grad, stack_module_state, vmap

    modules = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(device) for _ in range(3)]
    parameters, buffers = stack_module_state(modules)
    base, x = copy.deepcopy(modules[0]).to("meta"), torch.randn(5, 3).to(device)
    together = vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers)
    own = {name: p.detach() for name, p in modules[0].named_parameters()}

    def loss(p, one, wanted):
        return F.mse_loss(functional_call(modules[0], p, (one[None],)), wanted[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(own, x, torch.randn(5, 1).to(device))
    inverses = vmap(torch.linalg.inv)(torch.randn(4, 3, 3).to(device))
    return [together.detach(), each, inverses]


@on_both
def test_jagged(device):
    pieces = [torch.randn(n, 4).to(device) for n in (2, 3)]
    jagged = torch.nested.nested_tensor(pieces, layout=torch.jagged, requires_grad=True)
    padded = torch.nested.to_padded_tensor(jagged.sin() * 2 + 1, 0.0)
    padded.sum().backward()
    plain = torch.nested.as_nested_tensor(pieces, layout=torch.jagged)
    lengths = torch.tensor([1, 2, 3]).to(device)
    narrow = torch.nested.narrow(
        torch.randn(3, 5, 2).to(device), 1, torch.zeros_like(lengths), lengths, layout=torch.jagged
    )
    return [
        padded.detach(), jagged.grad.values(), plain.sum(dim=1), F.layer_norm(plain, (4,)).values(),
        narrow.contiguous().values(),
    ]  # fmt: skip


@on_both
def test_sparse_arithmetic(device):
    dense = torch.randn(4, 4).relu().to(device)
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    found = [
        coo.to_sparse_csc(), dense.to_sparse_bsr((2, 2)), coo.t().coalesce(), (coo + coo).coalesce(), coo[1],
        torch.sparse.sum(coo, 0), torch.sparse.softmax(coo, 1), torch.sparse.addmm(dense, coo, dense), coo.sqrt(),
        torch.sparse.mm(coo, coo), torch.cat([coo, coo]).coalesce(), dense.sparse_mask(coo), coo.norm(), csr @ dense,
        csr.matmul(dense[0]), csr.sum(), torch.addmm(dense, csr, dense), csr.relu(),
    ]  # fmt: skip
    if torch.backends.mkl.is_available():
        found.append(csr + csr)
    table, bag = nn.Embedding(6, 3, sparse=True).to(device), nn.EmbeddingBag(6, 3, sparse=True, mode="sum").to(device)
    both = [*table.parameters(), *bag.parameters()]
    for optimizer in (torch.optim.SparseAdam(both), torch.optim.Adagrad(both), torch.optim.SGD(both, lr=0.1)):
        optimizer.zero_grad()
        picked = table(torch.tensor([1, 2, 1]).to(device)).sum() + bag(torch.tensor([[1, 2], [3, 3]]).to(device)).sum()
        picked.backward()
        optimizer.step()
        found += [p.detach().clone() for p in both]
    return found


@on_both
def test_counting_and_sorting(device):
    x, f = torch.randint(0, 9, (50,)).to(device), torch.randn(50).to(device)
    pieces = torch.tensor([20, 30]).to(device)
    return [
        torch.bincount(x), torch.bincount(x, weights=f, minlength=12), torch.histc(f, 10),
        torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x.view(10, 5), dim=0),
        torch.sort(f, stable=True, descending=True), torch.searchsorted(f.sort()[0], f), torch.topk(f, 5),
        torch.bucketize(f, torch.linspace(-1, 1, 5).to(device), right=True), torch.kthvalue(f, 3), f.median(),
        torch.mode(x), f.quantile(0.3), torch.isin(x, torch.tensor([1, 2]).to(device)), torch.nonzero(x > 3),
        torch.masked_select(f, f > 0), torch.scatter_reduce(f, 0, x, f, "amax"), torch.cummax(f, 0),
        torch.index_reduce(f, 0, x, f, "prod"), torch.segment_reduce(f, "sum", lengths=pieces),
        torch.multinomial(torch.ones(5, device=device), 3), torch.randperm(10, device=device), torch.poisson(f.abs()),
        torch.repeat_interleave(x[:5], x[:5]), torch.combinations(x[:4]), torch.frexp(f), torch.cov(f.view(2, 25)),
    ]  # fmt: skip


@on_both
def test_complex_gradients(device):
    z = torch.randn(4, 4, dtype=torch.complex64).to(device).requires_grad_()
    window = torch.hann_window(8, device=device)
    return [
        gradients_of(function(z), z)
        for function in (
            lambda z: (z * z.conj()).real,
            lambda z: torch.fft.fft2(z).abs(),
            lambda z: torch.linalg.eigvalsh(z + z.mH),
            lambda z: torch.linalg.det(z).abs(),
            lambda z: torch.view_as_real(z).prod(),
            lambda z: torch.stft(torch.view_as_real(z).flatten(), 8, return_complex=True, window=window).abs(),
            lambda z: F.conv1d(z[None], z[:, :, None].contiguous()).abs(),
        )
    ]


@on_both
def test_small_floats(device):
    x, found = torch.randn(16, 16).to(device), []
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        small = x.to(dtype)
        found += [small.view(torch.uint8), small.float(), small.to(torch.bfloat16), small.clone().view(torch.uint8)]
    for dtype in (torch.bfloat16, torch.float16):
        for module, shape in (
            (nn.Conv1d(2, 4, 3, groups=2), (2, 2, 9)),
            (nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4)),
            (nn.ConvTranspose2d(2, 2, 3, stride=2), (1, 2, 4, 4)),
            (nn.InstanceNorm2d(2, affine=True), (2, 2, 4, 4)),
            (nn.RMSNorm(6), (2, 6)),
        ):
            module, y = module.to(device, dtype), torch.randn(shape).to(device, dtype).requires_grad_()
            found.append(gradients_of(module(y).float(), y, *module.parameters()))
    return found


@on_both
def test_wrapped_tensors(device):
    from torch.utils._pytree import tree_map

    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            plain = tree_map(lambda x: x.inner if isinstance(x, Wrapped) else x, (args, kwargs or {}))
            result = function(*plain[0], **plain[1])
            return tree_map(lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x, result)

    a, learned = Wrapped(torch.randn(3, 3).to(device)), Wrapped(torch.randn(3).to(device)).requires_grad_()
    product = (a @ a + a.sum()).relu()
    (learned * learned).sum().backward()
    assert product.device == torch.device(device)
    return [product.inner, learned.grad.inner]


@on_both
def test_penalty_on_a_gradient(device):
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), nn.Flatten(), nn.Linear(8, 1)).to(device)
    x = torch.randn(2, 1, 4, 4).to(device).requires_grad_()
    (slope,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
    penalty = (slope.flatten(1).norm(dim=1) - 1).square().mean()
    penalty.backward()
    return [penalty.detach(), *(p.grad for p in module.parameters() if p.grad is not None)]


@on_both
def test_modules_made_late(device):
    module = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)).to(device)
    found = [module(torch.ones(2, 1, 4, 4, device=device)).detach()]
    for make in (nn.init.orthogonal_, nn.init.kaiming_normal_, nn.init.xavier_uniform_, nn.init.trunc_normal_):
        found.append(make(torch.empty(4, 4, device=device)))
    with torch.device(device):
        made_there = nn.Linear(2, 2)
    with torch.device("meta"):
        made_nowhere = nn.Linear(2, 2)
    made_nowhere = made_nowhere.to_empty(device=device)
    made_nowhere.load_state_dict(made_there.state_dict())
    assigned = nn.Linear(2, 2)
    assigned.load_state_dict(made_there.state_dict(), assign=True)
    return [*found, made_nowhere.weight.detach(), assigned.weight.detach()]
