"""CLIP-like zero-shot retrieval: text bank encoded once and kept, image queries streamed."""
from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from tempfile import mkdtemp

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TwoTower(nn.Module):
    def __init__(self, vocab: int = 20, dim: int = 8) -> None:
        super().__init__()
        self.text = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.image = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, dim))
        self.logit_scale = nn.Parameter(torch.tensor(1.0))

    def encode_text(self, tokens: Tensor, offsets: Tensor) -> Tensor:
        return F.normalize(self.text(tokens, offsets), dim=-1)  # RAISES: 1

    def encode_image(self, im: Tensor) -> Tensor:
        return F.normalize(self.image(im), dim=-1)


def tokenize(captions: list[str], vocab: int = 20) -> tuple[Tensor, Tensor]:
    flat, offsets = [], []
    for c in captions:
        offsets.append(len(flat))
        flat += [sum(map(ord, w)) % vocab for w in c.split()]
    return torch.tensor(flat), torch.tensor(offsets)


def build_bank(model: TwoTower, captions: list[str], path: Path, device: str) -> None:
    tokens, offsets = tokenize(captions)
    bank = model.encode_text(tokens.to(device), offsets)  # BUG: any culprit=offsets
    # FIX: bank = model.encode_text(tokens.to(device), offsets.to(device))
    torch.save(bank.detach().cpu(), path)  # ALSO: 2


def retrieve(model: TwoTower, images: list[Tensor], path: Path, device: str, k: int = 2) -> list[list[int]]:
    bank = torch.load(path)  # BUG: any culprit=bank
    # FIX: bank = torch.load(path, map_location=device)
    found = []
    for im in images:
        q = model.encode_image(im[None, None].to(device))
        sim = model.logit_scale.exp() * q @ bank.T  # RAISES: 2
        found.append(sim.topk(k).indices[0].tolist())
    return found


def main(use_gpu: bool = True) -> None:
    torch.manual_seed(36)
    device = "cuda" if use_gpu and torch.cuda.is_available() else "cpu"
    model = TwoTower().to(device).eval()
    captions = ["a red cat", "two dogs run", "the blue sky at noon", "old stone bridge"]
    images = [torch.sin(torch.arange(64.0) * (i + 1) / 7).view(8, 8) for i in range(3)]
    path = Path(mkdtemp()) / "bank.pt"
    with torch.no_grad(), nullcontext():
        build_bank(model, captions, path, device)
        found = retrieve(model, images, path, device)
    votes = torch.bincount(torch.tensor(found).flatten(), minlength=len(captions))
    print(found, votes.max().item())


if __name__ == "__main__":
    main()
