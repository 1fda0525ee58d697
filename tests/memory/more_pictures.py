"""Trainings with pictures, in PyTorch alone: models made for a second comparison with a card.
Each function builds one and returns what a step of it does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional as F

Step = Callable[[], None]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
BF16, F16 = torch.bfloat16, torch.float16


def classify(
    model: nn.Module, make: MakeOptimizer, shape: tuple[int, ...], autocast: torch.dtype | None = None,
    layout: torch.memory_format = torch.contiguous_format,
) -> Step:  # fmt: skip
    """Random pictures in 1,000 classes; float16 with a scaler."""
    model = model.to("cuda", memory_format=layout)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=autocast is F16)

    def step() -> None:
        x = torch.randn(shape, device="cuda").contiguous(memory_format=layout)
        y = torch.randint(0, 1000, shape[:1], device="cuda")
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(True),
            nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != filters:
            self.around = nn.Sequential(nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.around(x), True)


def residual(counts: tuple[int, ...]) -> nn.Module:
    """A residual network."""
    parts: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, count in enumerate(counts):
        for number in range(count):
            parts.append(Residual(channels, 64 << stage, 2 if stage and not number else 1))
            channels = 64 << stage
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def residual_f16() -> Step:
    """Channels last, float16 with a scaler, SGD with Nesterov's momentum."""
    return classify(
        residual((2, 2, 2, 2)), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        (128, 3, 224, 224), F16,
        torch.channels_last,
    )  # fmt: skip


def residual_f32() -> Step:
    """float32, NAdam."""
    return classify(residual((3, 4, 6, 3)), torch.optim.NAdam, (48, 3, 192, 192))


def stacked_f32() -> Step:
    """Plain convolutions and large linear layers, float32, Adagrad."""
    parts: list[nn.Module] = []
    channels = 3
    for filters in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 0):
        parts += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(True)] if filters else [nn.MaxPool2d(2)]
        channels = filters or channels
    parts += [nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 1000)]
    return classify(nn.Sequential(*parts), lambda p: torch.optim.Adagrad(p, lr=0.01), (32, 3, 224, 224))


class Inverted(nn.Module):
    """Wide in the middle, where channels do not mix; channels weighed by what they hold."""

    def __init__(self, channels: int, filters: int, stride: int, wider: int = 6) -> None:
        super().__init__()
        inner = channels * wider
        self.skip = stride == 1 and channels == filters
        self.up = nn.Sequential(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.Hardswish())
        self.mix = nn.Sequential(
            nn.Conv2d(inner, inner, 5, stride, 2, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.Hardswish()
        )
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, inner // 4, 1), nn.ReLU(),
            nn.Conv2d(inner // 4, inner, 1), nn.Hardsigmoid(),
        )  # fmt: skip
        self.down = nn.Sequential(nn.Conv2d(inner, filters, 1, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mix(self.up(x))
        y = self.down(y * self.weigh(y))
        return x + y if self.skip else y


def mobile(layout: torch.memory_format, autocast: torch.dtype | None, make: MakeOptimizer) -> Step:
    """A network for small machines."""
    parts: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
    for channels, filters, stride in (
        (16, 24, 2),
        (24, 24, 1),
        (24, 40, 2),
        (40, 40, 1),
        (40, 80, 2),
        (80, 112, 1),
        (112, 160, 2),
    ):
        parts.append(Inverted(channels, filters, stride))
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return classify(nn.Sequential(*parts), make, (96, 3, 224, 224), autocast, layout)


def mobile_bf16() -> Step:
    """Channels last, bfloat16 autocast, RMSprop with momentum."""
    return mobile(torch.channels_last, BF16, lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9))


def mobile_f32() -> Step:
    """float32, RAdam."""
    return mobile(torch.contiguous_format, None, torch.optim.RAdam)


class Wide(nn.Module):
    """A layer of a modern convolutional network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(self.norm(self.mix(x).permute(0, 2, 3, 1))) * self.scale
        return x + y.permute(0, 3, 1, 2)


def wide_bf16() -> Step:
    """bfloat16 autocast, AdamW without foreach."""
    parts: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4)]
    for width, count in ((96, 3), (192, 3), (384, 9)):
        parts += [Wide(width) for _ in range(count)] + [nn.Conv2d(width, 2 * width, 2, 2)]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768), nn.Linear(768, 1000)]
    return classify(nn.Sequential(*parts), lambda p: torch.optim.AdamW(p, foreach=False), (48, 3, 224, 224), BF16)


class Dense(nn.Module):
    """What every layer made is seen by all that follow."""

    def __init__(self, channels: int, count: int, growth: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for number in range(count):
            before = channels + number * growth
            self.layers.append(nn.Sequential(
                nn.BatchNorm2d(before), nn.ReLU(True), nn.Conv2d(before, 4 * growth, 1, bias=False),
                nn.BatchNorm2d(4 * growth), nn.ReLU(True), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
            ))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [x]
        for layer in self.layers:
            made.append(layer(torch.cat(made, 1)))
        return torch.cat(made, 1)


def dense_f32() -> Step:
    """Three dense blocks, float32, fused SGD."""
    parts: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for count in (6, 8, 12):
        parts += [Dense(channels, count), nn.Conv2d(channels + 32 * count, 128, 1, bias=False), nn.AvgPool2d(2)]
        channels = 128
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1000)]
    return classify(
        nn.Sequential(*parts), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True), (32, 3, 224, 224)
    )


def patches_f32() -> Step:
    """A transformer over patches of pictures, from PyTorch's layers with dropout, float32, AdamW with amsgrad."""
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    split = nn.Sequential(nn.Conv2d(3, 384, 16, 16), nn.Flatten(2))

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split, self.encoder, self.head = split, encoder, nn.Linear(384, 1000)
            self.place = nn.Parameter(torch.zeros(1, 196, 384))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.split(x).transpose(1, 2) + self.place).mean(1))

    return classify(Patches(), lambda p: torch.optim.AdamW(p, amsgrad=True), (64, 3, 224, 224))


def adversaries() -> Step:
    """A generator and a discriminator of convolutions, float32, two Adams."""
    up: list[nn.Module] = [nn.ConvTranspose2d(128, 512, 4, 1, 0, bias=False), nn.BatchNorm2d(512), nn.ReLU(True)]
    down: list[nn.Module] = [nn.Conv2d(3, 64, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for filters in (256, 128, 64):
        up += [nn.ConvTranspose2d(2 * filters, filters, 4, 2, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(True)]
    for filters in (128, 256, 512):
        down += [
            nn.Conv2d(filters // 2, filters, 4, 2, 1, bias=False),
            nn.BatchNorm2d(filters),
            nn.LeakyReLU(0.2, True),
        ]
    maker = nn.Sequential(*up, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()).cuda()
    judge = nn.Sequential(*down, nn.Conv2d(512, 1, 4, 1, 0, bias=False), nn.Flatten(0)).cuda()
    makers, judges = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (maker, judge))
    loss = nn.BCEWithLogitsLoss()

    def step() -> None:
        real = torch.randn(256, 3, 64, 64, device="cuda")
        yes, no = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
        made = maker(torch.randn(256, 128, 1, 1, device="cuda"))
        judges.zero_grad()
        (loss(judge(real), yes) + loss(judge(made.detach()), no)).backward()
        judges.step()
        makers.zero_grad()
        loss(judge(made), yes).backward()
        makers.step()

    return step


class Noisy(nn.Module):
    """A residual layer that is told how noisy its picture is, and attention where there are few pixels."""

    def __init__(self, channels: int, filters: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, filters, 3, padding=1))
        self.time = nn.Linear(512, filters)
        self.second = nn.Sequential(
            nn.GroupNorm(32, filters), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(filters, filters, 3, padding=1)
        )
        self.around = nn.Conv2d(channels, filters, 1)
        self.attend = nn.MultiheadAttention(filters, 8, batch_first=True) if attends else None

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.around(x) + self.second(self.first(x) + self.time(time)[..., None, None])
        if self.attend is not None:
            flat = y.flatten(2).transpose(1, 2)
            y = y + self.attend(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(y)
        return y


def diffusion() -> Step:
    """A denoiser, bfloat16 autocast, two parts a step, AdamW, and a moving average of the weights."""
    widths = (128, 256, 384)
    down = nn.ModuleList(Noisy(a, b, b == 384) for a, b in zip((128, *widths), widths))
    up = nn.ModuleList(Noisy(a + b, c, False) for a, b, c in ((384, 384, 256), (256, 256, 128), (128, 128, 128)))
    model = nn.ModuleList(
        [nn.Conv2d(3, 128, 3, padding=1), down, up, nn.Conv2d(128, 3, 3, padding=1), nn.Linear(256, 512)]
    ).cuda()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def predict(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angles = t[:, None] * torch.exp(-torch.arange(128, device="cuda") / 14)
        time = F.silu(model[4](torch.cat([angles.sin(), angles.cos()], 1)))
        x, kept = model[0](x), []
        for layer in down:
            x = layer(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        for layer in up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = layer(torch.cat([x, kept.pop()], 1), time)
        return model[3](x)

    def step() -> None:
        for _ in range(2):
            x, noise = torch.randn(2, 16, 3, 64, 64, device="cuda")
            t = torch.rand(16, device="cuda") * 1000
            with torch.autocast("cuda", dtype=BF16):
                loss = F.mse_loss(predict(x + noise, t).float(), noise) / 2
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.001)

    return step


def segmentation() -> Step:
    """A class for every pixel: dilated convolutions, pooled context, float32, SGD."""
    body = nn.Sequential(*list(residual((2, 2, 2)))[:-3], nn.Conv2d(256, 256, 3, padding=4, dilation=4), nn.ReLU(True))
    rates = nn.ModuleList(
        nn.Sequential(nn.Conv2d(256, 128, 3, padding=r, dilation=r), nn.BatchNorm2d(128), nn.ReLU(True))
        for r in (1, 6, 12)
    )
    head = nn.Conv2d(384, 21, 1)
    model = nn.ModuleList([body, rates, head]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def step() -> None:
        x, y = torch.randn(8, 3, 384, 384, device="cuda"), torch.randint(0, 21, (8, 384, 384), device="cuda")
        features = body(x)
        scores = head(torch.cat([rate(features) for rate in rates], 1))
        loss = F.cross_entropy(
            F.interpolate(scores, size=(384, 384), mode="bilinear", align_corners=False), y, ignore_index=0
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step
