"""LoRA adapters injected into a frozen MLP that already lives on the GPU."""
import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 2, alpha: float = 4.0):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.A = nn.Parameter(torch.ones(rank, base.in_features) * 0.01)  # BUG: any culprit=self.A
        # FIX: self.A = nn.Parameter(torch.ones(rank, base.in_features, device=base.weight.device) * 0.01)
        self.B = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))
        self.scale = alpha / rank
        self.merged = False

    def forward(self, x):
        y = self.base(x)
        if self.merged:
            return y
        return y + (x @ self.A.t() @ self.B.t()) * self.scale  # RAISES: 1

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * (self.B @ self.A)
        self.merged = True


def inject(module, rank):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child, rank))
        else:
            inject(child, rank)
    return module


def trainable(module):
    return [p for p in module.parameters() if p.requires_grad]


class MLP(nn.Module):
    def __init__(self, n_in=5, hidden=12, n_out=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh())
        self.head = nn.Linear(hidden, n_out)

    def forward(self, x):
        return self.head(self.body(x))


torch.manual_seed(2)
DEV = "cuda" if torch.cuda.is_available() else "cpu"
model = MLP().to(DEV)
inject(model, rank=2)  # ALSO: 1
opt = torch.optim.Adam(trainable(model), lr=0.02)

data = torch.cos(torch.arange(40.0)).view(8, 5)
goal = torch.stack([data.sum(1), data.prod(1), data.max(1).values], dim=1)  # ALSO: 2
data = data.to(DEV)  # ALSO: 2

for i in range(30):
    opt.zero_grad()
    diff = model(data) - goal  # BUG: any culprit=goal # RAISES: 2
    # FIX: diff = model(data) - goal.to(DEV)
    loss = diff.square().mean()
    loss.backward()
    opt.step()

before = model(data)
for m in model.modules():
    if isinstance(m, LoRALinear):
        m.merge()
after = model(data)
print("loss %.4f" % loss.item(), "drift %.4f" % (before - after).abs().max().item())
