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
    dist.recv(theirs, src=(rank - 1) % ranks)  # BUG: ranks-part-ways
    # FIX: calls = [dist.P2POp(dist.irecv, theirs, (rank - 1) % ranks), dist.P2POp(dist.isend, mine, (rank + 1) % ranks)]
    dist.send(mine, dst=(rank + 1) % ranks)
    # FIX: for work in dist.batch_isend_irecv(calls):
        # FIX: work.wait()
    mine, theirs = theirs, mine
dist.destroy_process_group()
