"""Adversarial robustness: FGSM and PGD attacks against a small CNN."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_device():
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    return torch.device("cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 16, 2)

    def forward(self, x):
        return self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))


class Attack:
    def __init__(self, model, eps):
        self.model, self.eps = model, eps

    def grad(self, x, y):
        x = x.detach().requires_grad_(True)
        loss = F.cross_entropy(self.model(x), y)
        return torch.autograd.grad(loss, x)[0]

    def __call__(self, x, y):
        raise NotImplementedError


class FGSM(Attack):
    def __call__(self, x, y):
        return (x + self.eps * self.grad(x, y).sign()).clamp(0, 1)


class PGD(Attack):
    def __init__(self, model, eps, steps=4, region=None):
        super().__init__(model, eps)
        self.steps = steps
        self.region = region

    def __call__(self, x, y):
        delta = torch.zeros(x.shape)  # BUG: any culprit=delta
        # FIX: delta = torch.zeros_like(x)
        for _ in range(self.steps):
            g = self.grad((x + delta).clamp(0, 1), y)  # RAISES: 1
            delta = (delta + self.eps / 2 * g.sign()).clamp(-self.eps, self.eps)
            if self.region is not None:
                delta = delta * self.region  # RAISES: 2
        return (x + delta).clamp(0, 1)


def data(n=24):
    x = (torch.sin(torch.arange(n * 100.0) * 0.13).view(n, 1, 10, 10) + 1) / 2
    return x, (x[:, 0, :5].mean((1, 2)) > x[:, 0, 5:].mean((1, 2))).long()


def main():
    torch.manual_seed(3)
    device = get_device()
    model = Net().to(device)
    x, y = data()
    x, y = x.to(device), y.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(25):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
    border = torch.zeros(10, 10)  # ALSO: 2
    border[2:8, 2:8] = 1
    attacks = {
        "fgsm": FGSM(model, 0.05),
        "pgd": PGD(model, 0.05),
        "patch": PGD(model, 0.2, region=border),  # BUG: any culprit=border
        # FIX: "patch": PGD(model, 0.2, region=border.to(device)),
    }
    for name, attack in attacks.items():
        adv = attack(x, y)
        acc = (model(adv).argmax(1) == y).float().mean().item()
        print(name, round(acc, 3), round((adv - x).abs().max().item(), 3))


if __name__ == "__main__":
    main()
