"""Masks in every legal way."""
import torch
import torch.nn.functional as F
from torch import nn

dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(22)
B, T, C = 2, 5, 8
x = torch.linspace(-1, 1, B * T * C).view(B, T, C).to(dev)
lengths = torch.tensor([5, 3])


def key_padding(lengths, t, like):
    return (torch.arange(t)[None] >= lengths[:, None]).to(like.device)


def causal(t, like):
    return like.new_full((t, t), float("-inf")).triu(1)


mha = nn.MultiheadAttention(C, 2, batch_first=True).to(dev)
kpm = key_padding(lengths, T, x)
out, w = mha(x, x, x, key_padding_mask=kpm, attn_mask=causal(T, x).isinf(), need_weights=True)

q = k = v = x.view(B, T, 2, 4).transpose(1, 2)
a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
b = F.scaled_dot_product_attention(q, k, v, attn_mask=causal(T, x))
scores = (q @ k.transpose(-1, -2)) / 2
c = scores.masked_fill(torch.ones(T, T, device=dev).tril() == 0, -torch.inf).softmax(-1) @ v
square = nn.Transformer.generate_square_subsequent_mask(T, device=dev)
d = F.scaled_dot_product_attention(q, k, v, attn_mask=square)
print("%.4f" % out.sum().item(), [torch.allclose(a, t, atol=1e-5) for t in (b, c, d)], "%.3f" % w[1, :, 3:].sum().item())
