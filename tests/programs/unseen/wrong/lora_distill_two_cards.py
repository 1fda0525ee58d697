"""Distil a teacher on the second card into a small student with LoRA adapters on the first."""
import torch
import torch.nn as nn
import torch.nn.functional as F

first, second = torch.device("cuda:0"), torch.device("cuda:1")


class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(0.1 * torch.randn(rank, base.in_features))  # BUG: any culprit=self.A
        # FIX: self.A = nn.Parameter(0.1 * torch.randn(rank, base.in_features, device=base.weight.device))
        self.B = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.A.t() @ self.B.t())  # RAISES: 1

    def merged(self):
        return self.base.weight + self.scale * self.B @ self.A


def add_adapters(module, rank, alpha=4.0):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child, rank, alpha))
        else:
            add_adapters(child, rank, alpha)
    return module


def network(width):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))


class Distiller:
    def __init__(self, teacher, student, prior, temperature=2.0):
        self.teacher, self.student, self.T = teacher.eval(), student, temperature
        self.log_prior = prior.log()

    @torch.no_grad()
    def soft_targets(self, x):
        logits = self.teacher(x.to(second))
        return F.softmax(logits / self.T, dim=-1)  # BUG: any
        # FIX: return F.softmax(logits / self.T, dim=-1).to(x.device)

    def loss(self, x, y, mix):
        out = self.student(x)
        soft = self.soft_targets(x)
        kd = F.kl_div(F.log_softmax(out / self.T, dim=-1), soft, reduction="batchmean") * self.T ** 2  # RAISES: 2  # ALSO: 2
        adjusted = out + 0.5 * self.log_prior  # RAISES: 3
        return mix * kd + (1 - mix) * F.cross_entropy(adjusted, y)


def fit(model, device, x, y, steps):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = x.to(device), y.to(device)
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def make_data(n, gen):
    x = torch.randn(n, 6, generator=gen)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0.8).long()
    return x, y


def main():
    torch.manual_seed(13)
    gen = torch.Generator().manual_seed(2)
    x, y = make_data(240, gen)
    teacher = network(48).to(second)
    print(f"teacher {fit(teacher, second, x, y, 25):.4f}")
    student = network(16).to(first)
    print(f"student {fit(student, first, x[:60], y[:60], 8):.4f}")
    student = add_adapters(student, rank=2)  # ALSO: 1
    prior = torch.bincount(y, minlength=3) / len(y)  # BUG: any culprit=prior
    # FIX: prior = (torch.bincount(y, minlength=3) / len(y)).to(first)
    distiller = Distiller(teacher, student, prior)
    opt = torch.optim.Adam([p for p in student.parameters() if p.requires_grad], lr=1e-2)
    xs, ys = x.to(first), y.to(first)
    for step in range(12):
        loss = distiller.loss(xs, ys, mix=0.7)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            print(f"distil {step + 1} {loss.item():.4f}")
    delta = student[0].merged() - student[0].base.weight
    print(f"adapter norm {delta.norm().item():.4f}")


main()
