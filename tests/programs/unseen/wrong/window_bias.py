# %% [markdown]
# ## Attention in windows with a learned bias of relative positions
# Quick experiment from the reading group: is the bias worth it?

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
dev = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")


# %%
def relative_index(w):
    ys, xs = torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")
    p = torch.stack([ys.flatten(), xs.flatten()], 1)
    d = p[:, None] - p[None] + w - 1
    return d[..., 0] * (2 * w - 1) + d[..., 1]


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, w):
        super().__init__()
        self.heads, self.w = heads, w
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * w - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.2)
        self.index = relative_index(w).flatten()  # BUG: any culprit=self.index
        # FIX: self.register_buffer("index", relative_index(w).flatten())

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table.index_select(0, self.index).view(n, n, self.heads).permute(2, 0, 1)  # RAISES: 1
        att = q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5 + bias
        if mask is not None:
            att = att.masked_fill(mask, float("-inf"))  # RAISES: 2
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


def to_windows(img, w):
    b, c, h, _ = img.shape
    return img.view(b, c, h // w, w, h // w, w).permute(0, 2, 4, 3, 5, 1).reshape(-1, w * w, c)


# %%
W, DIM = 4, 16
embed = nn.Conv2d(1, DIM, 1).to(dev)
attn = WindowAttention(DIM, 2, W).to(dev)
head = nn.Linear(DIM, 3).to(dev)
params = [*embed.parameters(), *attn.parameters(), *head.parameters()]
opt = torch.optim.Adam(params, lr=5e-3)

causal = torch.ones(W * W, W * W, dtype=torch.bool).triu(1)  # BUG: any culprit=causal
# FIX: causal = torch.ones(W * W, W * W, dtype=torch.bool, device=dev).triu(1)

# %%
images = torch.sin(torch.arange(6 * 64.0) * 0.37).view(6, 1, 8, 8)
labels = torch.tensor([0, 1, 2, 0, 1, 2])
for epoch in range(5):
    x = images.to(dev)
    windows = attn(to_windows(embed(x), W), causal)
    pooled = windows.view(6, -1, W * W, DIM).mean((1, 2))
    loss = F.cross_entropy(head(pooled), labels.to(dev))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))

# %% what did the bias learn? average it by distance
with torch.no_grad():
    dist = torch.linspace(0, 3, (2 * W - 1) ** 2).long()  # ALSO: 3
    total = torch.zeros(4, device=dev).index_add(0, dist, attn.table.mean(1))  # BUG: any culprit=dist # RAISES: 3
    # FIX: total = torch.zeros(4, device=dev).index_add(0, dist.to(dev), attn.table.mean(1))
    count = torch.bincount(dist, minlength=4)
    print([round(v, 4) for v in (total.cpu() / count).tolist()])
