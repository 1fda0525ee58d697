import os

import torch
import torch.distributed as dist


def gather_rows(rows):
    parts = [torch.empty(2, 3, device=rows.device) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)  # BUG: ranks-part-ways
    return torch.cat(parts)


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
found = torch.randn(2 + rank, 3, device="cuda")
# ADD: found = found[:2]
print(gather_rows(found).shape)
dist.destroy_process_group()
