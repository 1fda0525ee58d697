"""torch.func over a module on the device: vmap, grad, jacrev and functional_call."""
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

torch.manual_seed(0)
device = "cuda"
model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
params = {k: v.detach() for k, v in model.named_parameters()}
x, y = torch.randn(6, 3, device=device), torch.arange(6, device=device) % 2


def loss(params, x, y):
    return nn.functional.cross_entropy(functional_call(model, params, (x[None],)), y[None])


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
print({k: tuple(v.shape) for k, v in per_sample.items()}, {v.device.type for v in per_sample.values()})
jacobian = vmap(jacrev(lambda x: functional_call(model, params, (x,))))(x)
print(jacobian.shape, jacobian.device)

ensemble = [nn.Linear(3, 1).to(device) for _ in range(4)]
stacked, buffers = stack_module_state(ensemble)
outputs = vmap(lambda p, b, x: functional_call(ensemble[0], (p, b), (x,)), in_dims=(0, 0, None))(stacked, buffers, x)
print(outputs.shape, torch.allclose(outputs[2], ensemble[2](x), atol=1e-6))
