"""Hooks that look at gradients, scale them and send copies to the host."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).cuda()
log = []
for name, parameter in model.named_parameters():
    parameter.register_hook(lambda g, name=name: log.append((name, g.detach().cpu().norm())))
model[2].weight.register_hook(lambda g: g * torch.tensor(0.5))
model[0].register_full_backward_hook(lambda m, gi, go: log.append(("go", go[0].cpu().abs().max())))
activations = {}
model[1].register_forward_hook(lambda m, i, o: activations.update(relu=o.detach().to("cpu", non_blocking=False)))
if hasattr(model[0].weight, "register_post_accumulate_grad_hook"):
    model[0].weight.register_post_accumulate_grad_hook(lambda p: log.append(("kept", p.grad.to("cpu").sum())))

x = torch.randn(5, 3).cuda()
(model(x) ** 2).mean().backward()
print(sorted({name for name, _ in log}), activations["relu"].device, all(v.device.type == "cpu" for _, v in log))
