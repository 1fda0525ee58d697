"""A second set of trainings that were measured on an H200 (tests/data/memory/trainings_second.jsonl): other models of
pictures and of language, other optimizers, types and layouts. Their figures were kept and their programs were not: the
model is the one that has so many bytes, the optimizer the one that leaves so many, the batch the power of two that
comes nearest.

Prints one JSON line for each that is named; needs transformers and torchvision."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from forking import figures, measure_each
from large_trainings import BF16, AdamW, Llama, Recipe, Step, language_model, make_llama, on_device, pictures
from torch import nn
from torch.nn import functional as F


def sgd(parameters: object) -> torch.optim.Optimizer:
    """With momentum."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)  # type: ignore[arg-type]


def plain_sgd(parameters: object) -> torch.optim.Optimizer:
    """Without."""
    return torch.optim.SGD(parameters, lr=0.01)  # type: ignore[arg-type]


def channels_last() -> Step:
    """ResNet-50, bfloat16 autocast."""
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = sgd(model.parameters())

    def step() -> None:
        x = torch.randn(32, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (32,), device="cuda")
        with torch.autocast("cuda", dtype=BF16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def small_llama(checkpointed: bool) -> Step:
    """Eight layers, four heads of keys and values for sixteen of queries, bfloat16."""
    model = make_llama(Llama(1024, 8, 16, 4, 2816))
    if checkpointed:
        model.gradient_checkpointing_enable()
        model.train()
    return language_model(model, AdamW(model.parameters(), lr=1e-4), Recipe(4, 1024, 32000, clip=1.0))


def small_gpt2(make: Callable[..., torch.optim.Optimizer]) -> Step:
    """Six layers, float32."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = on_device(lambda: GPT2LMHeadModel(GPT2Config(use_cache=False, n_layer=6)))
    return language_model(model, make(model.parameters()), Recipe(4, 512, 50257))


def dcgan(batch: int) -> Step:
    """A generator and a discriminator, one backward pass of the discriminator for both losses."""
    up: list[nn.Module] = [nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False), nn.BatchNorm2d(512), nn.ReLU(True)]
    down: list[nn.Module] = [nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    for filters in (256, 128, 64):
        conv = nn.ConvTranspose2d(2 * filters, filters, 4, 2, 1, bias=False)
        up += [conv, nn.BatchNorm2d(filters), nn.ReLU(True)]
    for filters in (128, 256, 512):
        conv = nn.Conv2d(filters // 2, filters, 4, 2, 1, bias=False)
        down += [conv, nn.BatchNorm2d(filters), nn.LeakyReLU(0.2, True)]
    maker = nn.Sequential(*up, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).cuda()
    judge = nn.Sequential(*down, nn.Conv2d(512, 1, 4, 1, 0)).cuda()
    makers, judges = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (maker, judge))
    loss = nn.BCEWithLogitsLoss()

    def step() -> None:
        real = torch.randn(batch, 3, 64, 64, device="cuda")
        made = maker(torch.randn(batch, 100, 1, 1, device="cuda"))
        yes, no = judge(real).view(-1), judge(made.detach()).view(-1)
        judges.zero_grad()
        (loss(yes, torch.ones_like(yes)) + loss(no, torch.zeros_like(no))).backward()
        judges.step()
        yes = judge(made).view(-1)
        makers.zero_grad()
        loss(yes, torch.ones_like(yes)).backward()
        makers.step()

    return step


TRAININGS: dict[str, Callable[[], Step]] = {
    "llama_ckpt": lambda: small_llama(True),
    "llama_gqa_bf16": lambda: small_llama(False),
    "gpt2_fp32_sgd": lambda: small_gpt2(plain_sgd),
    "gpt2_fp32_adafactorless": lambda: small_gpt2(torch.optim.RMSprop),
    "resnet18": lambda: pictures("resnet18", 64, 224, sgd),
    "resnet50_amp_cl": channels_last,
    "vgg16": lambda: pictures("vgg16", 16, 224, sgd),
    "densenet121": lambda: pictures("densenet121", 16, 224, sgd),
    "convnext_tiny": lambda: pictures("convnext_tiny", 32, 224, AdamW, BF16),
    "mobilenet_v3": lambda: pictures("mobilenet_v3_large", 64, 224, sgd),
    "swin_t": lambda: pictures("swin_t", 16, 224, AdamW),
    "vit_b_f32": lambda: pictures("vit_b_16", 16, 224, AdamW),
    "regnet": lambda: pictures("regnet_y_400mf", 32, 224, sgd),
    "dcgan": lambda: dcgan(128),
}


def measure(name: str) -> dict[str, int | str]:
    """Three steps."""
    torch.manual_seed(0)
    step = TRAININGS[name]()
    row: dict[str, int | str] = {"case": name, "model": torch.cuda.memory_allocated()}
    for _ in range(3):
        step()
    return {**row, **figures()}


if __name__ == "__main__":
    measure_each(measure, sys.argv[1:] or list(TRAININGS))
