"""Nobody waits for the work of a collective, but the whole device is waited for, or the host has the value: in order."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

count = torch.full((3,), 5.0, device="cuda")
dist.all_reduce(count, async_op=True)
torch.cuda.synchronize()
print((count / dist.get_world_size()).sum().item())

norm = torch.ones(3, device="cuda")
side = torch.cuda.Stream()
work = dist.all_reduce(norm, async_op=True)
with torch.cuda.stream(side):
    work.wait()
    half = norm / 2
torch.cuda.current_stream().wait_stream(side)
print((half + norm).sum().item())
dist.destroy_process_group()
