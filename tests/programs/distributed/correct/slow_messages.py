# finds: nothing
"""Messages that take their time, while collectives are on their way: nobody is stuck."""
import os
import time

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value, message = torch.ones(2, device="cuda"), torch.ones(3, device="cuda")
dist.all_reduce(value)
if rank == 0:
    work = dist.all_reduce(value, async_op=True)  # on its way, and not waited for
    time.sleep(3.5)
    dist.send(message, dst=1)
    work.wait()
else:
    dist.recv(message, src=0)
    dist.all_reduce(value)
works = []
for _ in range(100):  # more messages under way than anybody waits for
    works.append(dist.isend(message, 1) if rank == 0 else dist.irecv(message, 0))
works[-1].wait()
for work in works:
    work.wait()
dist.destroy_process_group()
