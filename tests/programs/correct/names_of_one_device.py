"""cuda, cuda:0, 0 and the current device are one place with many names."""
import torch
from torch import nn

names = ["cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), torch.device(0), 0, torch.cuda.current_device()]
tensors = [torch.ones(2, device=name) for name in names] + [torch.ones(2).cuda(), torch.ones(2).cuda(0), torch.ones(2).to("cuda")]
total = sum(tensors)
print(total.tolist(), {str(t.device) for t in tensors}, torch.device("cuda") == torch.device("cuda:0"))
model = nn.Linear(2, 1).to("cuda")
model(torch.ones(3, 2, device="cuda:0"))
with torch.cuda.device(1):
    here = torch.ones(2, device="cuda")
    there = here + torch.ones(2).cuda()
    print(there.device, (there.to("cuda:0") + total).device)
torch.cuda.set_device(1)
print(torch.zeros(1, device="cuda").device, torch.zeros(1).cuda().device, nn.Linear(2, 2, device="cuda").weight.device)
torch.set_default_device("cuda:0")
print((torch.arange(3) + torch.eye(3)).device, torch.get_default_device())
