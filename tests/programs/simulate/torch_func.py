# compare: exact
# devices: 1
"""torch.func: per-sample gradients, jacobians, hessians, functional_call and model ensembles under vmap."""

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1)).to(device)
x, y = torch.randn(6, 5).to(device), torch.randn(6, 1).to(device)
params = {k: v.detach() for k, v in model.named_parameters()}


def loss_of(params, sample, target):
    return (functional_call(model, params, (sample.unsqueeze(0),)) - target).square().mean()


per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0))(params, x, y)
assert all(g.device.type == device.type for g in per_sample.values())
for name, g in per_sample.items():
    print(name, tuple(g.shape), f"{g.norm().item():.5f}")

one_by_one = [grad(loss_of)(params, s, t) for s, t in zip(x, y)]
print("vmap equals a loop", all(torch.allclose(per_sample[k], torch.stack([g[k] for g in one_by_one]), atol=1e-6) for k in params))


def f(v):
    return torch.stack([v.sin().sum(), (v * v).prod()])


v = torch.linspace(0.5, 1.5, 4).to(device)
print("jacobians agree", torch.allclose(jacrev(f)(v), jacfwd(f)(v)))
print("hessian", [round(d, 4) for d in torch.diagonal(hessian(lambda t: t.pow(3).sum())(v)).tolist()])
_, tangent = jvp(f, (v,), (torch.ones_like(v),))
_, pull = vjp(f, v)
print("jvp", [round(t, 4) for t in tangent.tolist()], "vjp", [round(t, 4) for t in pull(torch.ones(2, device=device))[0].tolist()])

ensemble = [nn.Linear(5, 2).to(device) for _ in range(3)]
stacked, buffers = stack_module_state(ensemble)
template = nn.Linear(5, 2).to("meta")
outputs = vmap(lambda p, b: functional_call(template, (p, b), (x,)))(stacked, buffers)
print("ensemble", tuple(outputs.shape), all(torch.allclose(outputs[i], m(x), atol=1e-6) for i, m in enumerate(ensemble)))
print("chunked", torch.equal(vmap(torch.sin, chunk_size=2)(x), x.sin()))

# Sixty steps of a functional training loop.
gradient = grad(lambda p: (functional_call(model, p, (x,)) - y).square().mean())
for _ in range(60):
    params = {k: p - 0.1 * g for (k, p), g in zip(params.items(), gradient(params).values())}
print(f"trained {(functional_call(model, params, (x,)) - y).square().mean().item():.5f}")
