"""Distillation: a frozen ensemble on cuda:1 teaches a student on cuda:0."""
import contextlib
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Placement:
    student = torch.device("cuda:0")
    teacher = torch.device("cuda:1")


@contextlib.contextmanager
def frozen(*modules):
    before = [m.training for m in modules]
    for m in modules:
        m.eval()
    with torch.no_grad():
        yield
    for m, flag in zip(modules, before):
        m.train(flag)


class Timer(contextlib.ContextDecorator):
    def __enter__(self):
        self.t = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.spent = time.perf_counter() - self.t
        return False


def tower(width, hidden, depth, classes):
    layers = [nn.Linear(width, hidden), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


class Ensemble(nn.Module):
    def __init__(self, members, device):
        super().__init__()
        self.members = nn.ModuleList(members).to(device)
        self.vote = torch.tensor([0.5, 0.3, 0.2], device=Placement.student)  # BUG: any culprit=self.vote
        # FIX: self.vote = torch.tensor([0.5, 0.3, 0.2], device=device)
        self.device = device

    def forward(self, x):
        x = x.to(self.device)
        probs = torch.stack([m(x).softmax(-1) for m in self.members])
        return torch.einsum("m,mbc->bc", self.vote, probs)  # RAISES: 1


def fit_member(net, x, y, steps=25):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def distill_step(student, teacher, opt, x, y, mix=0.7, temperature=2.0):
    with frozen(teacher):
        soft = teacher(x)  # BUG: any culprit=soft
        # FIX: soft = teacher(x).to(Placement.student)
    logits = student(x)
    kl = F.kl_div(F.log_softmax(logits / temperature, -1), soft, reduction="batchmean")  # RAISES: 2 # ALSO: 2
    loss = mix * kl + (1 - mix) * F.cross_entropy(logits, y)  # RAISES: 3
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss, kl


@Timer()
def main():
    torch.manual_seed(81)
    centres = 2.0 * torch.randn(5, 8)
    y = torch.arange(300) % 5
    x = centres[y] + torch.randn(300, 8)

    members = [tower(8, 32, d, 5) for d in (1, 2, 3)]
    teacher = Ensemble(members, Placement.teacher)
    tx, ty = x.to(Placement.teacher), y.to(Placement.teacher)
    print("members", [round(fit_member(m, tx, ty), 4) for m in teacher.members])

    student = tower(8, 12, 1, 5).to(Placement.student)
    sx, sy = x.to(Placement.student), ty  # BUG: any
    # FIX: sx, sy = x.to(Placement.student), y.to(Placement.student)
    opt = torch.optim.Adam(student.parameters(), lr=1e-2)
    for it in range(30):
        rows = torch.randperm(300)[:60]
        loss, kl = distill_step(student, teacher, opt, sx[rows], sy[rows])
        if it % 10 == 9:
            print(it + 1, f"{loss.item():.4f} {kl.item():.4f}")
    with frozen(student):
        agree = (student(sx).argmax(1) == teacher(sx).argmax(1).to(sx.device)).float().mean()
    print("agreement", round(agree.item(), 3))


main()
