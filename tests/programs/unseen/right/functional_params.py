import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, vmap

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(4)
net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
params = {k: v.detach() for k, v in net.named_parameters()}
scale = torch.tensor(2.0)                       # 0-d on the host


def f(p, x):
    return functional_call(net, p, (x,)).squeeze(-1) * scale


def loss(p, x, y):
    return (f(p, x) - y).square().mean()


x = torch.sin(torch.arange(12.0, device=device)).view(6, 2)
y = x.sum(1)
for _ in range(10):
    g = grad(loss)(params, x, y)
    params = {k: v - 0.1 * g[k] for k, v in params.items()}
per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
norms = torch.stack([v.flatten(1).norm(dim=1) for v in per_sample.values()]).norm(dim=0)
jac = vmap(jacrev(lambda xi: f(params, xi)))(x)
hes = hessian(lambda xi: f(params, xi))(x[0])
print("%.4f %.4f" % (loss(params, x, y).item(), norms.mean().item()), tuple(jac.shape), tuple(hes.shape))
