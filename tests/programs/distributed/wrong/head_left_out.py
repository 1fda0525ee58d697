import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
torch.manual_seed(rank)
# FIX: torch.manual_seed(7)

tower = nn.ModuleDict({"wide": nn.Linear(8, 32), "narrow": nn.Linear(32, 8), "head": nn.Linear(8, 2)}).to(rank)
tower = parallelize_module(  # BUG: differs-by-rank
    module=tower,
    device_mesh=init_device_mesh("cuda", (dist.get_world_size(),)),
    parallelize_plan={"wide": ColwiseParallel(), "narrow": RowwiseParallel()},
)
optimizer = torch.optim.SGD(tower.parameters(), lr=0.1, foreach=False)
torch.manual_seed(100)
for batch in torch.randn(4, 6, 8).to(rank):
    hidden = tower["narrow"](tower["wide"](batch).relu())
    loss = tower["head"](hidden).logsumexp(-1).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
