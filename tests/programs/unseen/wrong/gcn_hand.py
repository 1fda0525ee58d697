# %% [markdown]
# Graph convolution by hand on a toy "karate" graph; exported from a notebook.

# %%
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
use_cuda = torch.cuda.is_available()

# %%
edges = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6), (6, 7), (7, 4)]
edge_index = torch.tensor(edges + [(b, a) for a, b in edges]).t().contiguous()
num_nodes = 8
x = torch.eye(num_nodes)
y = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])  # ALSO: 1
train_mask = torch.tensor([True, False, True, True, False, True, False, True])

# %%
if use_cuda:
    edge_index = edge_index.cuda()
    x = x.cuda()
    train_mask = train_mask.cuda()  # BUG: any culprit=y
    # FIX: train_mask = train_mask.cuda()
    # FIX: y = y.cuda()

# %%
def degree(index, n):
    deg = torch.zeros(n)  # BUG: any culprit=deg
    # FIX: deg = torch.zeros(n, device=index.device)
    ones = torch.ones(index.numel(), device=index.device)
    return deg.index_add_(0, index, ones)  # RAISES: 2


class GCNLayer(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout)

    def forward(self, h, edge_index):
        src, dst = edge_index
        deg = degree(dst, h.size(0)).clamp(min=1)
        norm = (deg[src] * deg[dst]).rsqrt()
        msg = self.lin(h)[src] * norm.unsqueeze(1)
        return torch.zeros(h.size(0), msg.size(1), device=h.device).index_add(0, dst, msg)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = GCNLayer(num_nodes, 8)
        self.b = GCNLayer(8, 2)

    def forward(self, h, edge_index):
        return self.b(F.relu(self.a(h, edge_index)), edge_index)

# %%
net = GCN()
if use_cuda:
    net = net.cuda()
opt = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=5e-4)

# %%
for epoch in range(25):
    opt.zero_grad()
    out = net(x, edge_index)
    loss = F.cross_entropy(out[train_mask], y[train_mask])  # RAISES: 1
    loss.backward()
    opt.step()

# %%
pred = net(x, edge_index).argmax(dim=1)
acc = (pred == y).float().mean()
print("loss", round(loss.item(), 4), "acc", round(acc.item(), 3))
