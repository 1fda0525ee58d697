"""Trainings and generations of language models, towers, tables and graphs, in PyTorch alone: models made for a second
comparison with a card. Each function builds one and returns what a step of it does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Step = Callable[[], None]
BF16, F16 = torch.bfloat16, torch.float16


def rotate(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Positions, by rotation."""
    length, width = x.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, width, 2, device=x.device) / width)
    angles = torch.arange(start, start + length, device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Block(nn.Module):
    """A layer of a decoder: RMS norms, rotated positions, grouped heads, a gated inner layer."""

    def __init__(self, width: int, heads: int, key_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, past: list[torch.Tensor] | None = None) -> torch.Tensor:
        batch, length, _ = x.shape
        normed = self.first(x)
        start = past[0].shape[2] if past else 0
        q = rotate(self.q(normed).view(batch, length, self.heads, self.size).transpose(1, 2), start)
        k, v = self.kv(normed).view(batch, length, 2 * self.key_heads, self.size).transpose(1, 2).chunk(2, 1)
        k = rotate(k, start)
        if past is not None:
            if past:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            past[:] = [k, v]
        if self.key_heads != self.heads:
            k, v = (part.repeat_interleave(self.heads // self.key_heads, 1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        normed = self.second(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    """A language model of such layers."""

    def __init__(
        self, width: int, layers: int, heads: int, key_heads: int, inner: int, vocabulary: int = 32000
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, key_heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.recompute = False

    def forward(self, tokens: torch.Tensor, past: list[list[torch.Tensor]] | None = None) -> torch.Tensor:
        x = self.tokens(tokens)
        for number, block in enumerate(self.blocks):
            if self.recompute:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x, past[number] if past is not None else None)
        return self.head(self.norm(x))


def train_decoder(
    model: Decoder, optimizers: list[torch.optim.Optimizer], batch: int, length: int, autocast: torch.dtype | None
) -> Step:
    """Next tokens, clipped gradients."""

    def step() -> None:
        tokens = torch.randint(0, 32000, (batch, length + 1), device="cuda")
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

    return step


def decoder_checkpointed() -> Step:
    """bfloat16 autocast, every layer checkpointed, AdamW."""
    model = Decoder(1024, 16, 16, 4, 2816).cuda()
    model.recompute = True
    return train_decoder(model, [torch.optim.AdamW(model.parameters())], 16, 1024, BF16)


def decoder_muon() -> Step:
    """All in bfloat16; Muon for the matrices of the layers, AdamW for the rest."""
    model = Decoder(1280, 12, 20, 20, 3456).cuda().bfloat16()
    inner = [p for p in model.blocks.parameters() if p.ndim == 2]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or not name.startswith("blocks")]
    return train_decoder(model, [torch.optim.Muon(inner), torch.optim.AdamW(others)], 4, 1536, None)


def decoder_f32() -> Step:
    """All in float32, Adamax."""
    model = Decoder(768, 10, 12, 12, 2048).cuda()
    return train_decoder(model, [torch.optim.Adamax(model.parameters())], 4, 768, None)


def sequential_checkpointed() -> Step:
    """PyTorch's encoder layers in four checkpointed parts (reentrant), float32, SGD with momentum."""
    layers = nn.Sequential(*[nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True) for _ in range(12)])
    model = nn.Sequential(nn.Embedding(20000, 768), layers, nn.Linear(768, 20000)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        tokens = torch.randint(0, 20000, (16, 256), device="cuda")
        hidden = checkpoint_sequential(layers, 4, model[0](tokens), use_reentrant=True)
        loss = F.cross_entropy(model[2](hidden).transpose(1, 2), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def generation() -> Step:
    """bfloat16, keys and values grow by concatenation, the next token is drawn from the best 50."""
    model = Decoder(2048, 20, 16, 8, 5632).cuda().bfloat16().eval()

    @torch.no_grad()
    def step() -> None:
        tokens = torch.randint(0, 32000, (8, 512), device="cuda")
        past: list[list[torch.Tensor]] = [[] for _ in model.blocks]
        logits = model(tokens, past)[:, -1]
        for _ in range(48):
            best, index = logits.float().topk(50)
            chosen = index.gather(1, torch.multinomial(best.softmax(-1), 1))
            tokens = torch.cat([tokens, chosen], 1)
            logits = model(chosen, past)[:, -1]

    return step


def generation_f32() -> Step:
    """float32, no keys and values kept: all is computed again for every token; the likeliest token is taken."""
    model = Decoder(1024, 12, 16, 16, 2816).cuda().eval()

    def step() -> None:
        tokens = torch.randint(0, 32000, (4, 480), device="cuda")
        with torch.inference_mode():
            for _ in range(32):
                tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], 1)

    return step


def translation() -> Step:
    """PyTorch's nn.Transformer with masks, float16 and a scaler, smoothed labels."""
    model = nn.Transformer(512, 8, 6, 6, 2048, dropout=0.1, batch_first=True).cuda()
    tokens, head = nn.Embedding(32000, 512, padding_idx=0).cuda(), nn.Linear(512, 32000).cuda()
    everything = [*model.parameters(), *tokens.parameters(), *head.parameters()]
    optimizer, scaler = torch.optim.Adam(everything, lr=1e-4, betas=(0.9, 0.98)), torch.amp.GradScaler("cuda")

    def step() -> None:
        source = torch.randint(1, 32000, (32, 96), device="cuda")
        target = torch.randint(1, 32000, (32, 97), device="cuda")
        source[:, 80:], target[:, 85:] = 0, 0
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=F16):
            mask = nn.Transformer.generate_square_subsequent_mask(96, device="cuda")
            hidden = model(
                tokens(source), tokens(target[:, :-1]), tgt_mask=mask, src_key_padding_mask=source == 0,
                tgt_key_padding_mask=(target[:, :-1] == 0).float().masked_fill(target[:, :-1] == 0, float("-inf")),
            )  # fmt: skip
            logits = head(hidden).flatten(0, 1)
            loss = F.cross_entropy(logits, target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(everything, 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


class Experts(nn.Module):
    """A layer of experts; each takes the tokens that like it best."""

    def __init__(self, width: int, inner: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, inner) * 0.02)
        self.down = nn.Parameter(torch.randn(count, inner, width) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, 1)
        chances = self.router(flat).softmax(-1, dtype=torch.float32)
        weight, index = chances.t().topk(2 * flat.shape[0] // len(self.up), -1)
        chosen = flat[index]
        made = torch.bmm(F.gelu(torch.bmm(chosen, self.up.to(chosen.dtype))), self.down.to(chosen.dtype))
        made = (made * weight[..., None]).to(x.dtype)
        return torch.zeros_like(flat).index_add(0, index.flatten(), made.flatten(0, 1)).view_as(x)


def experts() -> Step:
    """Eight experts a layer, bfloat16 autocast, fused AdamW."""
    layers = [nn.Sequential(nn.LayerNorm(768), Experts(768, 3072, 8)) for _ in range(6)]
    attentions = [nn.MultiheadAttention(768, 12, batch_first=True) for _ in range(6)]
    model = nn.ModuleList([nn.Embedding(32000, 768), *layers, *attentions, nn.Linear(768, 32000)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        tokens = torch.randint(0, 32000, (8, 512), device="cuda")
        with torch.autocast("cuda", dtype=BF16):
            x = model[0](tokens)
            for layer, attention in zip(layers, attentions):
                x = x + attention(x, x, x, need_weights=False)[0]
                x = x + layer(x)
            loss = F.cross_entropy(model[-1](x).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def towers() -> Step:
    """Two towers and a contrast between all pairs of a batch, in bfloat16, fused AdamW."""

    def tower(inputs: int) -> nn.Module:
        layer = nn.TransformerEncoderLayer(
            512, 8, 2048, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        return nn.Sequential(nn.Linear(inputs, 512), nn.TransformerEncoder(layer, 6, enable_nested_tensor=False))

    model = nn.ModuleList([tower(768), tower(300)]).to("cuda", BF16)
    scale = nn.Parameter(torch.tensor(2.6, device="cuda"))
    optimizer = torch.optim.AdamW([*model.parameters(), scale], lr=1e-4, weight_decay=0.2, fused=True)

    def step() -> None:
        pictures = torch.randn(512, 50, 768, device="cuda", dtype=BF16)
        words = torch.randn(512, 32, 300, device="cuda", dtype=BF16)
        one, two = (F.normalize(m(x).mean(1), dim=-1) for m, x in zip(model, (pictures, words)))
        logits = scale.exp() * one @ two.t()
        truth = torch.arange(512, device="cuda")
        loss = (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def tables() -> Step:
    """A recommender: bags of a large table with sparse gradients, products of pairs, SparseAdam and Adagrad."""
    bags = nn.ModuleList(nn.EmbeddingBag(400_000, 64, mode="sum", sparse=True) for _ in range(6)).cuda()
    below = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU()).cuda()
    above = nn.Sequential(
        nn.Linear(64 + 21, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
    ).cuda()
    sparse = torch.optim.SparseAdam(list(bags.parameters()))
    dense = torch.optim.Adagrad([*below.parameters(), *above.parameters()], lr=0.01)

    def step() -> None:
        numbers = torch.randn(16384, 13, device="cuda")
        looked_up = [bag(torch.randint(0, 400_000, (16384, 8), device="cuda")) for bag in bags]
        wide = below(numbers)
        every = torch.stack([wide, *looked_up], 1)
        pairs = torch.bmm(every, every.transpose(1, 2))
        rows, columns = torch.tril_indices(7, 7, -1, device="cuda")
        out = above(torch.cat([wide, pairs[:, rows, columns]], 1)).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(out, torch.rand(16384, device="cuda").round())
        for optimizer in (sparse, dense):
            optimizer.zero_grad()
        loss.backward()
        for optimizer in (sparse, dense):
            optimizer.step()

    return step


def graph() -> Step:
    """Three layers of attention over the edges of a graph, float32, Adam."""
    nodes, edges, heads, width = 40_000, 400_000, 4, 64
    mix = nn.ModuleList(nn.Linear(256, heads * width) for _ in range(3)).cuda()
    score = nn.ModuleList(nn.Linear(2 * width, 1) for _ in range(3)).cuda()
    head = nn.Linear(256, 40).cuda()
    parameters = [*mix.parameters(), *score.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.005, weight_decay=5e-4)
    x = torch.randn(nodes, 256, device="cuda")
    source, target = torch.randint(0, nodes, (2, edges), device="cuda")
    labels = torch.randint(0, 40, (nodes,), device="cuda")

    def step() -> None:
        h = x
        for layer, weigh in zip(mix, score):
            z = layer(F.dropout(h, 0.5)).view(nodes, heads, width)
            e = F.leaky_relu(weigh(torch.cat([z[source], z[target]], -1)).squeeze(-1), 0.2).exp()
            total = torch.zeros(nodes, heads, device="cuda").index_add(0, target, e)
            a = (e / (total[target] + 1e-9)).unsqueeze(-1)
            h = F.elu(torch.zeros_like(z).index_add(0, target, a * z[source])).flatten(1)
        optimizer.zero_grad()
        F.nll_loss(F.log_softmax(head(h), -1), labels).backward()
        optimizer.step()

    return step
