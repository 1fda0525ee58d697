import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Attention(nn.Module):
    """Each rank has some of the heads; their queries and keys are normalized head by head."""

    def __init__(self, width=16, size=4):
        super().__init__()
        self.size = size
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = nn.RMSNorm(size), nn.RMSNorm(size)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.o(out.transpose(1, 2).flatten(2))


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("tp",))
model = Attention().cuda()
plan = {**dict.fromkeys(("q", "k", "v"), ColwiseParallel()), "o": RowwiseParallel()}
parallelize_module(model, mesh, plan)  # BUG: differs-by-rank
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
for _ in range(3):
    model(torch.randn(2, 6, 16, device="cuda")).pow(2).mean().backward()
    # ADD: for norm in (model.q_norm, model.k_norm): dist.all_reduce(norm.weight.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
