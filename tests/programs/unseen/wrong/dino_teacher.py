"""Self-distillation with an EMA teacher and output centring."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)  # ALSO: 2

    @torch.no_grad()
    def update(self, online):
        for slow, fast in zip(self.model.parameters(), online.parameters()):
            slow.mul_(self.decay).add_(fast, alpha=1 - self.decay)

    def __call__(self, x):
        with torch.no_grad():
            return self.model(x)  # RAISES: 2  # RAISES: 3


class Centre:
    """Running mean of teacher outputs, subtracted before sharpening."""

    def __init__(self, width, device, momentum=0.9):
        self.value = torch.zeros(width)  # BUG: any culprit=self.value
        # FIX: self.value = torch.zeros(width, device=device)
        self.momentum = momentum

    def __call__(self, out, temperature):
        target = ((out - self.value) / temperature).softmax(-1)  # RAISES: 1
        self.value = self.momentum * self.value + (1 - self.momentum) * out.mean(0)
        return target


def backbone(width=12, classes=6):
    return nn.Sequential(nn.Linear(width, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, classes))


class Multicrop:
    def __init__(self, n_local, width, device):
        half = torch.arange(width, device=device) < width // 2
        self.masks = [torch.roll(half, 3 * i).float() for i in range(n_local)]

    def globals(self, x):
        return [x + 0.1 * torch.randn_like(x) for _ in range(2)]

    def locals(self, x):
        return [x * m for m in self.masks]


def dino_loss(student_outs, targets, temperature=0.3):
    terms = []
    for i, t in enumerate(targets):
        for j, s in enumerate(student_outs):
            if i != j:
                terms.append(-(t * F.log_softmax(s / temperature, -1)).sum(-1).mean())
    return torch.stack(terms).mean()


def main():
    torch.manual_seed(29)
    device = torch.device("cuda")
    student = backbone()
    teacher = Ema(student, decay=0.9)  # BUG: any culprit=teacher
    # FIX: teacher = Ema(student.to(device), decay=0.9)
    student = student.to(device)
    centre = Centre(6, device)
    crops = Multicrop(3, 12, device)
    opt = torch.optim.AdamW(student.parameters(), lr=5e-3)

    prototypes = 1.5 * torch.randn(6, 12)
    pool = prototypes[torch.arange(240) % 6] + 0.4 * torch.randn(240, 12)
    for step in range(24):
        x = pool[torch.randint(len(pool), (48,))]  # BUG: any culprit=x
        # FIX: x = pool[torch.randint(len(pool), (48,))].to(device)
        views = crops.globals(x)
        targets = [centre(teacher(v), 0.15) for v in views]
        outs = [student(v) for v in views + crops.locals(x)]
        loss = dino_loss(outs, targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
        teacher.update(student)
        if step % 6 == 5:
            entropy = -(targets[0] * targets[0].clamp_min(1e-9).log()).sum(-1).mean()
            print(step + 1, f"loss {loss.item():.4f} entropy {entropy.item():.4f}")
    codes = teacher(pool.to(device)).argmax(-1)
    print("codes used", codes.unique().numel(), "centre", round(centre.value.norm().item(), 4))


if __name__ == "__main__":
    main()
