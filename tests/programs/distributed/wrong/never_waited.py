"""The norms of all ranks are added up while the program goes on, and nobody waits for the sum."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
norm = torch.full((4,), 2.0, device="cuda")
work = dist.all_reduce(norm, async_op=True)
scaled = norm / dist.get_world_size()  # BUG: never-waited culprit=norm  # RAISES: none
# FIX: work.wait()
# FIX: scaled = norm / dist.get_world_size()
work.wait()
print("scaled", tuple(scaled.shape))
dist.destroy_process_group()
