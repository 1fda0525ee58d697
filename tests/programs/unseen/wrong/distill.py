"""Knowledge distillation: a big teacher teaches a small student."""
import torch
import torch.nn.functional as F
from torch import nn


def make_net(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(16, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    layers.append(nn.Linear(width, 4))
    return nn.Sequential(*layers)


def images(n: int):
    x = torch.sin(torch.arange(n * 16, dtype=torch.float32) * 0.37).view(n, 1, 4, 4)
    y = (x.flatten(1)[:, :4]).argmax(1)
    return x, y


class Distiller:
    def __init__(self, teacher, student, temperature=2.0, alpha=0.5):
        self.device = next(student.parameters()).device
        self.teacher = teacher.eval()  # BUG: any culprit=self.teacher
        # FIX: self.teacher = teacher.eval().to(self.device)
        self.student = student
        self.T = temperature
        self.alpha = alpha

    def loss(self, x, y):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.T, dim=1)  # RAISES: 1
        logits = self.student(x)
        kd = F.kl_div(F.log_softmax(logits / self.T, dim=1), soft, reduction="batchmean") * self.T**2
        ce = F.cross_entropy(logits, y)
        return self.alpha * kd + (1 - self.alpha) * ce


def accuracy(model, x, y):
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = model(x.to(device))
    return (logits.argmax(1) == y).float().mean().item()  # BUG: any culprit=y # RAISES: 2
    # FIX: return (logits.argmax(1) == y.to(device)).float().mean().item()


def main():
    torch.manual_seed(9)
    gpu = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = images(32)

    teacher = make_net(32, 3)
    opt = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _ in range(20):  # small enough for the host
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()

    student = make_net(8, 1).to(gpu)
    distiller = Distiller(teacher, student)  # ALSO: 1
    opt = torch.optim.Adam(student.parameters(), lr=1e-2)
    for _ in range(20):
        opt.zero_grad()
        loss = distiller.loss(x.to(gpu), y.to(gpu))
        loss.backward()
        opt.step()
    print("kd %.4f acc %.3f" % (loss.item(), accuracy(student, x, y)))


if __name__ == "__main__":
    main()
