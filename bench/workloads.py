"""The programs that are timed. Each is made for a device and gives back `run(n)`, which does its step n times.

Ordinary PyTorch, written as people write it: nothing here knows of Locus, and the same code runs in every worker.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from calls import CALLS, Run
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """One layer of a GPT."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.attention(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Four layers, 256 wide: a GPT of 3.5 million parameters."""

    def __init__(self, vocabulary: int = 512, length: int = 128, width: int = 256, heads: int = 4, layers: int = 4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


def resnet() -> nn.Module:
    """Six residual blocks for images of 32 × 32."""
    stem = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    widths = [(32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    body = [Residual(*width) for width in widths]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def _training(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> Run:
    def run(n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
            loss.backward()
            optimizer.step()

    return run


def train_gpt(device: str) -> Run:
    """A training step of a 4-layer GPT with AdamW: 4 sequences of 128 tokens."""
    model = GPT().to(device)
    ids = torch.randint(512, (4, 129)).to(device)
    return _training(model, torch.optim.AdamW(model.parameters(), lr=1e-4), ids[:, :-1], ids[:, 1:].reshape(-1))


def train_resnet(device: str) -> Run:
    """A training step of a small ResNet with SGD: 16 images of 32 × 32."""
    model = resnet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return _training(model, optimizer, torch.randn(16, 3, 32, 32).to(device), torch.randint(10, (16,)).to(device))


def _tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))


def train_mlp(device: str) -> Run:
    """A training step of two small layers with SGD: almost nothing but the cost of the calls."""
    model = _tiny().to(device)
    x, y = torch.randn(16, 32).to(device), torch.randint(10, (16,)).to(device)
    return _training(model, torch.optim.SGD(model.parameters(), lr=1e-3), x, y)


def train_mlp_in_one_thread(device: str) -> Run:
    """The same, but that autograd hands nothing to a thread of the device's."""
    inner = train_mlp(device)

    def run(n: int) -> None:
        with torch.autograd.set_multithreading_enabled(False):
            inner(n)

    return run


def add(device: str) -> Run:
    """One addition of 8 floats."""
    a, b = torch.ones(8).to(device), torch.ones(8).to(device)

    def run(n: int) -> None:
        for _ in range(n):
            a + b

    return run


def add_in_dispatch_mode(device: str) -> Run:
    """The same under a TorchDispatchMode that does nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    inner = add(device)

    def run(n: int) -> None:
        with Nothing():
            inner(n)

    return run


def add_in_fake_mode(device: str) -> Run:
    """The same under FakeTensorMode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        inner = add(device)

    def run(n: int) -> None:
        with mode:
            inner(n)

    return run


COPY_BYTES = 64 << 20


def copy_to(device: str) -> Run:
    """64 MiB from the host to the device, into memory that is there already."""
    source = torch.ones(COPY_BYTES // 4)
    target = torch.zeros(COPY_BYTES // 4).to(device)

    def run(n: int) -> None:
        for _ in range(n):
            target.copy_(source)

    return run


def copy_from(device: str) -> Run:
    """64 MiB from the device to the host, into memory that is there already."""
    source = torch.ones(COPY_BYTES // 4).to(device)
    target = torch.zeros(COPY_BYTES // 4)

    def run(n: int) -> None:
        for _ in range(n):
            target.copy_(source)

    return run


def _with_cache(device: str, cache_device: str) -> Run:
    model = _tiny().to(device)
    x, cache = torch.randn(16, 32).to(device), torch.randn(32).to(cache_device)

    def run(n: int) -> None:
        for _ in range(n):
            model(x + cache).sum().backward()

    return run


def clean_loop(device: str) -> Run:
    """Forward and backward of a tiny model, everything on one device."""
    return _with_cache(device, device)


def finding_loop(device: str) -> Run:
    """The same with one tensor left on the CPU: one mistake, made anew in every pass."""
    return _with_cache(device, "cpu")


def add_mixed(device: str) -> Run:
    """One addition of 8 floats, one operand left on the CPU: nothing but the mistake."""
    a, b = torch.ones(8).to(device), torch.ones(8)

    def run(n: int) -> None:
        for _ in range(n):
            a + b

    return run


def tiny_steps(device: str) -> Run:
    """A handful of small operators with a backward pass, a transfer and a synchronization: for memory that grows."""
    weight = torch.ones(8).to(device).requires_grad_()
    batch = torch.ones(8)

    def run(n: int) -> None:
        for _ in range(n):
            loss = (weight * batch.to(device)).relu().sum()
            loss.backward()
            loss.item()
            weight.grad = None

    return run


def add_on_one_stream(device: str) -> Run:
    """Four additions in a row, four times: what add_on_four_streams does on one stream."""
    return _additions(device, 1)


def add_on_four_streams(device: str) -> Run:
    """The same, each row on a stream of its own. From here on the process has several streams."""
    return _additions(device, 4)


def _additions(device: str, count: int) -> Run:
    main = torch.cuda.current_stream()
    streams = [main, *(torch.cuda.Stream() for _ in range(count - 1))]
    operands = [torch.ones(8, device=device) for _ in streams]
    torch.cuda.synchronize()
    rows = [(streams[row % count], operands[row % count]) for row in range(4)]

    def run(n: int) -> None:
        for _ in range(n):
            for stream, x in rows:
                with torch.cuda.stream(stream):
                    for _ in range(1024):
                        x + x

    return run


def many_storages(device: str) -> Run:
    """Each pass makes one more storage, and uses it once on the current stream."""
    kept: list[torch.Tensor] = []

    def run(n: int) -> None:
        for _ in range(n):
            kept.append(torch.ones(1, device=device).add_(1))

    return run


WORKLOADS: dict[str, Callable[[str], Run]] = {
    function.__name__: function
    for function in (
        train_gpt,
        train_resnet,
        train_mlp,
        train_mlp_in_one_thread,
        add,
        add_in_dispatch_mode,
        add_in_fake_mode,
        copy_to,
        copy_from,
        clean_loop,
        finding_loop,
        add_mixed,
        tiny_steps,
        add_on_one_stream,
        add_on_four_streams,
        many_storages,
    )
} | CALLS
"""Every program by its name."""
