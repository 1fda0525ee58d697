"""Trainings with films, sound and equations, in PyTorch alone: models made for a second comparison with a card. Each
function builds one and returns what a step of it does."""

from __future__ import annotations

import torch
from more_pictures import BF16, Step, classify
from torch import nn
from torch.nn import functional as F


def films() -> Step:
    """Convolutions over space and time, bfloat16 autocast, SGD."""
    parts: list[nn.Module] = []
    for channels, filters, stride in ((3, 64, (1, 2, 2)), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)):
        parts += [nn.Conv3d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm3d(filters), nn.ReLU(True)]
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(256, 1000))
    return classify(model, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), (24, 3, 16, 112, 112), BF16)


def sound() -> Step:
    """Waves to letters: convolutions over time, two GRUs in both directions, CTC, float32, Adadelta."""
    front = nn.Sequential(
        nn.Conv1d(80, 256, 3, 2, 1),
        nn.BatchNorm1d(256),
        nn.GELU(),
        nn.Conv1d(256, 256, 3, 1, 1),
        nn.BatchNorm1d(256),
        nn.GELU(),
    )
    model = nn.ModuleList([front, nn.GRU(256, 512, 2, bidirectional=True), nn.Linear(1024, 32)]).cuda()
    optimizer = torch.optim.Adadelta(model.parameters())

    def step() -> None:
        x = torch.randn(32, 80, 1200, device="cuda")
        hidden = model[1](front(x).permute(2, 0, 1))[0]
        scores = model[2](hidden).log_softmax(-1)
        letters = torch.randint(1, 32, (32, 60), device="cuda")
        lengths = torch.full((32,), 600, dtype=torch.long), torch.full((32,), 60, dtype=torch.long)
        loss = F.ctc_loss(scores, letters, *lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()

    return step


def waves() -> Step:
    """An autoencoder of one-dimensional convolutions with normed weights, float32, Adam."""
    norm = nn.utils.parametrizations.weight_norm
    parts: list[nn.Module] = [norm(nn.Conv1d(1, 32, 7, padding=3))]
    for filters in (64, 128, 256):
        parts += [nn.ELU(), norm(nn.Conv1d(filters // 2, filters, 8, 4, 2))]
    for filters in (128, 64, 32):
        parts += [nn.ELU(), norm(nn.ConvTranspose1d(2 * filters, filters, 8, 4, 2))]
    model = nn.Sequential(*parts, nn.ELU(), norm(nn.Conv1d(32, 1, 7, padding=3))).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    window = torch.hann_window(1024, device="cuda")

    def step() -> None:
        x = torch.randn(16, 1, 64000, device="cuda")
        y = model(x)
        spectra = [torch.stft(s.squeeze(1), 1024, 256, window=window, return_complex=True).abs() for s in (x, y)]
        loss = F.l1_loss(y, x) + F.l1_loss(spectra[1], spectra[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def equation() -> Step:
    """A network that solves an equation: second derivatives by autograd, LBFGS."""
    parts: list[nn.Module] = [nn.Linear(2, 512), nn.Tanh()]
    for _ in range(4):
        parts += [nn.Linear(512, 512), nn.Tanh()]
    model = nn.Sequential(*parts, nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, history_size=10)

    def step() -> None:
        x = torch.rand(8192, 2, device="cuda").requires_grad_()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            u = model(x)
            first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
            second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0][:, 0]
            loss = (first[:, 1] - 0.1 * second + torch.sin(x[:, 0])).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)

    return step
