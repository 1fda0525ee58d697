import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


def both():
    return dist.new_group([0, 1])  # BUG: ranks-part-ways


def first():
    return dist.new_group([0])  # ALSO: 1


groups = [make() for make in ((both, first) if rank == 0 else (first, both))]
# FIX: groups = [make() for make in (both, first)]
value = torch.ones(2, device="cuda")
dist.all_reduce(value, group=next(group for group in groups if group != dist.GroupMember.NON_GROUP_MEMBER))
dist.destroy_process_group()
