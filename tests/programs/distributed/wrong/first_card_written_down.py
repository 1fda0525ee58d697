import torch
import torch.distributed as dist
from torch import nn


def train(rank):
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")  # BUG: shared-device
    # FIX: device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(rank)
    critic = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)).to(device)
    score = critic(torch.ones(5, 6).to(device)).mean().detach()
    dist.all_reduce(score)


dist.init_process_group("nccl")
train(dist.get_rank())
dist.destroy_process_group()
