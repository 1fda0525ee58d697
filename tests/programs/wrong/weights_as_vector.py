"""The weights of a model as one vector, for a line search by hand."""

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

torch.manual_seed(0)
body = nn.Linear(6, 4).to("cuda:0")
head = nn.Linear(4, 2)  # BUG: model-not-moved culprit=head.weight|head.bias
# FIX: head = nn.Linear(4, 2).to("cuda:0")
sizes = [p.numel() for module in (body, head) for p in module.parameters()]
print("sizes", sizes)

vector = parameters_to_vector([*body.parameters(), *head.parameters()])  # RAISES: 1
step = torch.randn(vector.numel(), device=vector.device)
moved = vector + 0.1 * step
