# finds: nothing
"""SyncBatchNorm on the halves of a batch is BatchNorm on the whole: outputs, gradients, running statistics."""
import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
whole = torch.randn(7, 5, 3, 3)
for layout in (torch.contiguous_format, torch.channels_last):
    alone = nn.Sequential(nn.Conv2d(5, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    shared = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).cuda()
    shared = DistributedDataParallel(shared, device_ids=[rank])
    part = slice(0, 3) if rank == 0 else slice(3, 7)
    for _ in range(2):
        expected = alone(whole)
        alone.zero_grad()
        expected.square().sum().backward()
        result = shared(whole[part].cuda().contiguous(memory_format=layout))
        shared.zero_grad()
        result.square().sum().backward()
    torch.testing.assert_close(result.cpu(), expected[part], rtol=1e-4, atol=1e-5)
    for one, other in zip(alone.parameters(), shared.parameters()):
        torch.testing.assert_close(other.grad.cpu() * 2, one.grad, rtol=1e-4, atol=1e-4)
    for one, other in zip(alone.buffers(), shared.buffers()):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-5)
half = nn.SyncBatchNorm(5).cuda()
assert half(whole.cuda().half()).dtype == torch.half
half(whole[: 0 if rank == 0 else 4].cuda()).sum().backward()  # a rank without a batch
dist.destroy_process_group()
