"""A prompt that was tuned on the second GPU is used on the first."""

import io

import torch
from torch import nn

torch.manual_seed(0)
shelf = io.BytesIO()
tuned = torch.randn(2, 8).to("cuda:1")
torch.save({"prompt": tuned, "step": 120}, shelf)
shelf.seek(0)

device = torch.device("cuda:0")
checkpoint = torch.load(shelf)  # BUG: checkpoint culprit=prompt|checkpoint["prompt"]
# FIX: checkpoint = torch.load(shelf, map_location=device)
prompt = checkpoint["prompt"]
embed, mix = nn.Embedding(11, 8).to(device), nn.Linear(8, 8).to(device)


def forward(tokens):
    h = embed(tokens)
    h = torch.cat([prompt.expand(len(tokens), -1, -1), h], dim=1)  # RAISES: 1
    return mix(h).mean(1)


with torch.no_grad():
    out = forward(torch.arange(10, device=device).view(2, 5))
print(checkpoint["step"], out.shape, out.device)
