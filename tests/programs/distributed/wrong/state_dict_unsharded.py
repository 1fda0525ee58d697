import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

model = nn.Linear(4, 4).cuda()
saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
# ADD: model.load_state_dict(saved)
fully_shard(model)
model.load_state_dict(saved)  # BUG: sharding
# FIX:
dist.destroy_process_group()
