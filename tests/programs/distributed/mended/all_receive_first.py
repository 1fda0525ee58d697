# finds: nothing
import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")

ranks = dist.get_world_size()
mine = torch.full((4,), float(rank), device="cuda")
theirs = torch.empty_like(mine)
for _ in range(2):
    calls = [dist.P2POp(dist.irecv, theirs, (rank - 1) % ranks), dist.P2POp(dist.isend, mine, (rank + 1) % ranks)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    mine, theirs = theirs, mine
dist.destroy_process_group()
