"""Two functions that each make a collective are called in another order on one rank."""

import os

import torch
import torch.distributed as dist


def add_up(loss):
    dist.all_reduce(loss)  # BUG: ranks-part-ways


def share(config):
    dist.broadcast(config, 0)  # ALSO: 1


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
loss, config = torch.ones(1, device="cuda"), torch.ones(4, device="cuda")
if dist.get_rank() == 0:
    add_up(loss)
    share(config)
else:
    # ADD: add_up(loss)
    share(config)
    add_up(loss)
    # FIX 1:
dist.destroy_process_group()
