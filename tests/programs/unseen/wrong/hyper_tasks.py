"""A hypernetwork writes the weights of a small regressor, one for each task."""
from torch import nn
from torch.func import functional_call
import torch

sizes = dict(hidden=8, code=5, tasks=4)


class Target(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.a, self.b = nn.Linear(1, hidden), nn.Linear(hidden, 1)
        self.register_buffer("gain", torch.ones(hidden))

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)) * self.gain)  # RAISES: 1


class Hyper(nn.Module):
    def __init__(self, target, code, tasks):
        super().__init__()
        self.shapes = {name: p.shape for name, p in target.named_parameters()}
        total = sum(shape.numel() for shape in self.shapes.values())
        self.codes = nn.Embedding(tasks, code)
        self.write = nn.Sequential(nn.Linear(code, 16), nn.SiLU(), nn.Linear(16, total))
        self.base = torch.cat([p.detach().flatten() for p in target.parameters()])  # ALSO: 2

    def forward(self, task):
        flat = self.base + 0.3 * self.write(self.codes(task))  # BUG 2: any culprit=self.base # RAISES: 2 # RAISES: 3
        # FIX: flat = self.base.to(self.codes.weight.device) + 0.3 * self.write(self.codes(task))
        out, at = {}, 0
        for name, shape in self.shapes.items():
            out[name] = flat[at : at + shape.numel()].view(shape)
            at += shape.numel()
        return out


class Memory:
    """Remembers each task's weights, for a penalty on forgetting."""

    def __init__(self):
        self.weights = {}

    def remember(self, task, written):
        self.weights[task] = {k: v.detach().cpu() for k, v in written.items()}  # ALSO: 4

    def penalty(self, task, written):
        if task not in self.weights:
            return 0.0
        return sum((written[k] - old).square().sum() for k, old in self.weights[task].items())  # BUG 4: any culprit=old # RAISES: 4
        # FIX: return sum((written[k] - old.to(written[k].device)).square().sum() for k, old in self.weights[task].items())


def curve(task, x):
    return torch.sin(x * (1 + task * 0.5)) * (0.5 + 0.2 * task)


torch.manual_seed(9)
device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
target = Target(sizes["hidden"])  # ALSO: 1
hyper = Hyper(target, sizes["code"], sizes["tasks"])
memory = Memory()
for module in [hyper]:  # BUG 1: any culprit=self.gain
# FIX: for module in [hyper, target]:
    module.to(device)
opt = torch.optim.Adam(hyper.parameters(), lr=1e-2)
x = torch.linspace(-2, 2, 16, device=device).unsqueeze(1)

for task in range(sizes["tasks"]):
    index = torch.tensor(task)  # BUG 3: any culprit=index
    # FIX: index = torch.tensor(task, device=device)
    for _ in range(6):
        written = hyper(index)
        loss = (functional_call(target, written, (x,)) - curve(task, x)).square().mean()
        for old in range(task):
            again = hyper(torch.tensor(old, device=device))
            loss = loss + 0.01 * memory.penalty(old, again)
        opt.zero_grad()
        loss.backward()
        opt.step()
    memory.remember(task, hyper(index))
    print(f"task {task} loss {loss.item():.4f}")
