import torch
import torch.nn.functional as F
from torch import nn


def sigmoid_rampup(step, length):
    phase = 1.0 - torch.clamp(torch.tensor(step / length), 0, 1)
    return torch.exp(-5 * phase * phase)                 # 0-d on the host


def perturb(x, k):
    return x + 0.05 * torch.sin(torch.arange(x.numel(), device=x.device) * k).view_as(x)


torch.manual_seed(86)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
make = lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
student, teacher = make(), make()
teacher.load_state_dict(student.state_dict())
opt = torch.optim.Adam(student.parameters(), lr=1e-2)
labelled = torch.zeros(12, dtype=torch.bool)
labelled[:4] = True                                      # host mask, used as an index
x = torch.cos(torch.arange(36.0)).view(12, 3).to(device)
y = (x[:, 1] > 0).long()
for step in range(12):
    out = student(perturb(x, 1.3))
    with torch.no_grad():
        goal = teacher(perturb(x, 2.1)).softmax(1)
    sup = F.cross_entropy(out[labelled], y[labelled])
    cons = F.mse_loss(out.softmax(1), goal)
    loss = sup + sigmoid_rampup(step, 10) * cons
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.parameters()):
            t.mul_(0.9).add_(s, alpha=0.1)
acc = (teacher(x).argmax(1) == y)[~labelled].float().mean()
print("%.4f %.3f" % (loss.item(), acc.item()))
