"""Gradients are added up over the ranks while another stream makes the optimizer's step: before the sums are there."""

import os

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(0)
net = nn.Linear(8, 8, device="cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
side = torch.cuda.Stream()
for _ in range(2):
    net(torch.randn(4, 8, device="cuda")).square().mean().backward()
    works = []
    for parameter in net.parameters():
        works.append(dist.all_reduce(parameter.grad, async_op=True))
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        # ADD: for work in works: work.wait()
        optimizer.step()  # BUG: never-waited  # RAISES: none
    for work in works:
        work.wait()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=False)
dist.destroy_process_group()
