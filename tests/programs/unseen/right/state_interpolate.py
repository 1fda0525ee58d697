"""Model soups: checkpoints from different devices, mixed on the host."""
import torch
from torch import nn


def train(device, seed):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.sin(torch.arange(30.0) * (1 + seed / 10)).view(10, 3).to(device)
    for _ in range(5):
        loss = (net(x).squeeze(1) - x.mean(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net


def soup(states, weights):
    host = [{k: v.cpu() for k, v in s.items()} for s in states]
    return {k: sum(w * s[k] for w, s in zip(weights, host)) for k in host[0]}


nets = [train(f"cuda:{i}", i) for i in range(torch.cuda.device_count())]
mixed = soup([n.state_dict() for n in nets], torch.tensor([0.25, 0.75]))
final = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).cuda()
final.load_state_dict(mixed)
flat = nn.utils.parameters_to_vector(final.parameters())
nn.utils.vector_to_parameters(flat * 0.5, final.parameters())
dist = [sum((p.cpu() - mixed[k]).norm().item() for k, p in n.named_parameters()) for n in nets]
print("%.4f" % flat.norm().item(), ["%.4f" % d for d in dist], final[0].weight.device)
