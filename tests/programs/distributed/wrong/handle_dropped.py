"""The number of samples of all ranks: nobody keeps what there is to wait for."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
count = torch.full((3,), 5.0, device="cuda")
dist.all_reduce(count, async_op=True)  # BUG: never-waited culprit=count
# FIX: dist.all_reduce(count, async_op=True).wait()
share = count / dist.get_world_size()  # RAISES: none
dist.destroy_process_group()
