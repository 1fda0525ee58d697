"""Teacher on the second GPU, student on the first; logits are handed over."""
import torch
import torch.nn.functional as F
from torch import nn

STUDENT = torch.device("cuda", 0)
TEACHER = torch.device("cuda", 1)
torch.manual_seed(40)


def mlp(h):
    return nn.Sequential(nn.Linear(5, h), nn.ReLU(), nn.Linear(h, 3))


teacher = mlp(32).to(TEACHER).eval().requires_grad_(False)
student = mlp(4).to(STUDENT)
opt = torch.optim.Adam(student.parameters(), lr=2e-2)
x = torch.sin(torch.arange(50.0)).view(10, 5)
y = torch.arange(10) % 3


def teach(batch):
    with torch.no_grad():
        return teacher(batch.to(TEACHER)).to(STUDENT)


for epoch in range(6):
    for bx, by in zip(x.split(5), y.split(5)):
        soft = teach(bx)
        out = student(bx.to(STUDENT))
        loss = F.kl_div(out.log_softmax(1), soft.softmax(1), reduction="batchmean")
        loss = loss + 0.3 * F.cross_entropy(out, by.to(STUDENT))
        opt.zero_grad()
        loss.backward()
        opt.step()
agree = (student(x.to(STUDENT)).argmax(1).cpu() == teacher(x.to(TEACHER)).argmax(1).cpu()).float().mean()
print("%.4f %.2f" % (loss.item(), agree.item()))
