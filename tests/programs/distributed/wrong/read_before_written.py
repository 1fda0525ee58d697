import os
import tempfile
import time

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

path = os.path.join(tempfile.gettempdir(), f"locus-{os.getppid()}-{os.environ['MASTER_PORT']}.pt")
model = torch.nn.Linear(2, 2).cuda()
if rank == 0:
    time.sleep(2)
    torch.save(model.state_dict(), path)
# ADD: dist.barrier()
model.load_state_dict(torch.load(path, map_location=f"cuda:{rank}"))  # BUG: rank-missing
dist.all_reduce(model.weight.data)
dist.destroy_process_group()
if rank == 0:
    os.remove(path)
