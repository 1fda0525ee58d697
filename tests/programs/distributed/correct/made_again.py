# finds: nothing
"""Groups that are left and made again, with other calls; the calls of the first are not those of the second."""
import os
import tempfile

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
value = torch.ones(4, device="cuda")
dist.init_process_group("nccl")
for _ in range(3):
    dist.all_reduce(value)
dist.all_gather_into_tensor(torch.empty(8, device="cuda"), value)
dist.destroy_process_group()

path = os.path.join(tempfile.gettempdir(), f"locus-{os.environ['MASTER_PORT']}-{os.getppid()}")
dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=2)
dist.broadcast(value, src=0)
dist.reduce(value[:2].clone(), dst=1)
dist.barrier(device_ids=[rank])
dist.destroy_process_group()
