"""Trainings of real size whose memory was measured on an H200 (tests/data/memory/trainings.jsonl), three steps from a
fresh process. Prints one JSON line for each that is named. Runs on a card, and dry on a machine without one. Some need
transformers or torchvision."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from forking import figures, measure_each
from torch import nn
from torch.nn import functional as F

Step = Callable[[], None]
AdamW = torch.optim.AdamW


class Llama(NamedTuple):
    """The dimensions of one."""

    width: int
    layers: int
    heads: int
    key_heads: int
    inner: int


LLAMA_1B = Llama(2048, 16, 16, 16, 5632)
LLAMA_3B = Llama(3072, 28, 24, 8, 8192)
LLAMA_7B = Llama(4096, 32, 32, 32, 11008)


class Recipe(NamedTuple):
    """How a language model is trained."""

    batch: int
    length: int
    vocabulary: int
    autocast: torch.dtype | None = None
    parts: int = 1
    """Of a batch, each with a backward pass of its own."""
    clip: float | None = None
    scaled: bool = False


def on_device(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model that is made there and in that type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            return make()
    finally:
        torch.set_default_dtype(before)


def language_model(model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe) -> Step:
    """Its steps on random tokens."""
    scaler = torch.amp.GradScaler("cuda", enabled=recipe.scaled)

    def step() -> None:
        for _ in range(recipe.parts):
            tokens = torch.randint(0, recipe.vocabulary, (recipe.batch, recipe.length), device="cuda")
            with torch.autocast("cuda", dtype=recipe.autocast, enabled=recipe.autocast is not None):
                loss = model(input_ids=tokens, labels=tokens).loss / recipe.parts
            scaler.scale(loss).backward()
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step


def gpt2(recipe: Recipe, **options: bool) -> Step:
    """The one with 124 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = on_device(lambda: GPT2LMHeadModel(GPT2Config(use_cache=False)))
    return language_model(model, AdamW(model.parameters(), lr=1e-4, **options), recipe)


def bert(recipe: Recipe) -> Step:
    """Bert base."""
    from transformers import BertConfig, BertForMaskedLM

    model = on_device(lambda: BertForMaskedLM(BertConfig()))
    return language_model(model, AdamW(model.parameters(), lr=1e-4), recipe)


def make_llama(size: Llama) -> nn.Module:
    """In bfloat16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        num_key_value_heads=size.key_heads, intermediate_size=size.inner, vocab_size=32000,
        max_position_embeddings=8192, use_cache=False,
    )  # fmt: skip
    return on_device(lambda: LlamaForCausalLM(config), torch.bfloat16)


def llama(size: Llama, recipe: Recipe) -> Step:
    """All of it is trained."""
    model = make_llama(size)
    return language_model(model, AdamW(model.parameters(), lr=1e-4), recipe)


class LowRank(nn.Module):
    """What is trained beside a layer that is not."""

    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        options = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features, **options) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, **options))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + (x @ self.down.T) @ self.up.T


def low_rank(size: Llama, recipe: Recipe) -> Step:
    """Queries and values get something of low rank."""
    model = make_llama(size).requires_grad_(False)
    for layer in model.model.layers:
        attention = layer.self_attn
        attention.q_proj, attention.v_proj = LowRank(attention.q_proj), LowRank(attention.v_proj)
    return language_model(model, AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4), recipe)


def pictures(
    name: str, batch: int, size: int, make: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    autocast: torch.dtype | None = None,
) -> Step:  # fmt: skip
    """A model of torchvision."""
    import torchvision

    model = getattr(torchvision.models, name)().cuda()
    optimizer = make(model.parameters())

    def step() -> None:
        x, y = torch.randn(batch, 3, size, size, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


class UNet(nn.Module):
    """Four scales, joined by concatenation."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()

        def block(channels: int, filters: int) -> nn.Module:
            parts: list[nn.Module] = []
            for inner in (channels, filters):
                parts += [nn.Conv2d(inner, filters, 3, 1, 1), nn.GroupNorm(8, filters), nn.SiLU()]
            return nn.Sequential(*parts)

        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(block(channels, filters) for channels, filters in zip([3, *widths], widths))
        self.up = nn.ModuleList(block(widths[i] + widths[i - 1], widths[i - 1]) for i in (3, 2, 1))
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, block in enumerate(self.down):
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2) if number < 3 else x
        for number, block in enumerate(self.up):
            x = block(torch.cat([F.interpolate(x, scale_factor=2), kept[2 - number]], 1))
        return self.out(x)


def unet(batch: int, size: int) -> Step:
    """In float32, with Adam."""
    model = UNet().cuda()
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        x = torch.randn(batch, 3, size, size, device="cuda")
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def lstm(batch: int, length: int) -> Step:
    """A language model of two recurrent layers, SGD."""
    parts = nn.ModuleList([nn.Embedding(33000, 650), nn.LSTM(650, 650, 2, dropout=0.5), nn.Linear(650, 33000)]).cuda()
    embedding, recurrent, head = parts
    optimizer = torch.optim.SGD(parts.parameters(), lr=1.0)

    def step() -> None:
        tokens = torch.randint(0, 33000, (length, batch), device="cuda")
        loss = F.cross_entropy(head(recurrent(embedding(tokens))[0]).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parts.parameters(), 0.25)
        optimizer.step()

    return step


class PlainAttention(nn.Module):
    """A layer of a transformer that writes attention out, with a mask."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        inner = [nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)]
        self.inner = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.mix(self.first(x)).split(width, 2)
        q, k, v = [part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts]
        later = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.inner(self.second(x))


def attention(batch: int, length: int, width: int, heads: int, layers: int) -> Step:
    """In float32, with AdamW."""
    model = nn.Sequential(*[PlainAttention(width, heads) for _ in range(layers)]).cuda()
    optimizer = AdamW(model.parameters())

    def step() -> None:
        loss = model(torch.randn(batch, length, width, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


BF16, F16 = torch.bfloat16, torch.float16
TRAININGS: dict[str, Callable[[], Step]] = {
    "gpt2_124m_b8": lambda: gpt2(Recipe(8, 1024, 50257, BF16)),
    "gpt2_fused": lambda: gpt2(Recipe(8, 512, 50257, BF16), fused=True),
    "gpt2_fp16": lambda: gpt2(Recipe(8, 512, 50257, F16, clip=1.0, scaled=True)),
    "llama_1b": lambda: llama(LLAMA_1B, Recipe(4, 1024, 32000, clip=1.0)),
    "llama_1b_accum": lambda: llama(LLAMA_1B, Recipe(2, 1024, 32000, parts=4, clip=1.0)),
    "llama_3b": lambda: llama(LLAMA_3B, Recipe(2, 2048, 32000, clip=1.0)),
    "llama_7b_lora": lambda: low_rank(LLAMA_7B, Recipe(2, 1024, 32000)),
    "bert_base": lambda: bert(Recipe(32, 256, 30522, BF16)),
    "resnet50": lambda: pictures("resnet50", 64, 224, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "vit_l_16": lambda: pictures("vit_l_16", 32, 224, AdamW, BF16),
    "efficientnet": lambda: pictures("efficientnet_b3", 32, 300, torch.optim.RMSprop),
    "unet_256": lambda: unet(8, 256),
    "lstm_lm": lambda: lstm(64, 100),
    "naive_attention": lambda: attention(4, 2048, 1024, 16, 6),
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
    measure_each(measure, sys.argv[1:])
