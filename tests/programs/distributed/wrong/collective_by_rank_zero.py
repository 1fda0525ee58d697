import os

import torch
import torch.distributed as dist


def evaluate(metric):
    dist.all_reduce(metric)
    return metric / dist.get_world_size()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    metric = torch.ones(3, device="cuda")
    for _ in range(2):
        if local_rank == 0:
        # FIX: if metric is not None:
            evaluate(metric)
        dist.barrier()  # BUG: ranks-part-ways
    dist.destroy_process_group()


main()
