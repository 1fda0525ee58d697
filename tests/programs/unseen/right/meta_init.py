"""Build on the meta device, materialise with to_empty, then fill."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.fc = nn.Linear(d, d)
        self.register_buffer("scale", torch.ones(1))

    def reset_parameters(self):
        self.norm.reset_parameters()
        nn.init.eye_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        self.scale.fill_(0.5)

    def forward(self, x):
        return x + self.scale * self.fc(self.norm(x))


def materialise(model, device):
    model.to_empty(device=device)
    for m in model.modules():
        if isinstance(m, Block):
            m.reset_parameters()
    return model


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with torch.device("meta"):
    net = nn.Sequential(*[Block(4) for _ in range(3)])
    shape = net(torch.empty(2, 4)).shape
assert all(p.is_meta for p in net.parameters())
net = materialise(net, device)
x = torch.arange(8.0, device=device).view(2, 4)
out = net(x)

with torch.device("meta"):
    twin = nn.Sequential(*[Block(4) for _ in range(3)])
twin.load_state_dict({k: v.clone() for k, v in net.state_dict().items()}, assign=True)
print(tuple(shape), "%.4f" % out.sum().item(), torch.equal(twin(x), out))
