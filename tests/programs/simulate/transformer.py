# compare: close
# devices: 1
"""nn.TransformerEncoder with a padding mask and a causal mask; training, then the fused inference path."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, width, longest=64):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(position * frequency)
        table[0, :, 1::2] = torch.cos(position * frequency)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Classifier(nn.Module):
    def __init__(self, vocabulary=40, width=32, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = PositionalEncoding(width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens, padding, causal=None):
        x = self.position(self.embedding(tokens) * math.sqrt(32))
        x = self.encoder(x, mask=causal, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        return self.head(self.norm((x * keep).sum(1) / keep.sum(1)))


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
tokens = torch.randint(1, 40, (24, 10))
labels = tokens[:, 0] % 3
padding = torch.arange(10).expand(24, 10) >= torch.randint(4, 11, (24, 1))
tokens, labels, padding = (t.to(device) for t in (tokens, labels, padding))
causal = nn.Transformer.generate_square_subsequent_mask(10, device=device)
# The same kind of mask for both: PyTorch warns about a float mask next to a bool one.
causal = causal == float("-inf")

model = Classifier().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(8):
    loss = nn.functional.cross_entropy(model(tokens, padding, causal), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

model.eval()
with torch.inference_mode():
    logits = model(tokens, padding)
assert logits.device.type == device and model.position.table.device.type == device
print("logits", [round(v, 3) for v in logits.mean(0).tolist()])

attention = nn.MultiheadAttention(32, 4, batch_first=True).to(device)
q = torch.linspace(-1, 1, 2 * 5 * 32).view(2, 5, 32).to(device)
out, weights = attention(q, q, q, need_weights=True)
print("attention", tuple(out.shape), f"{weights.sum().item():.4f}", f"{out.abs().mean().item():.4f}")
