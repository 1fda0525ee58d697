# Old-fashioned idioms: is_cuda, get_device, type_as, new
import torch
import torch.nn as nn


def one_hot(labels, n):
    out = torch.zeros(labels.size(0), n)
    if labels.is_cuda:
        out = out.cuda(labels.get_device())
    return out.scatter_(1, labels.view(-1, 1), 1)


class CenterLoss(nn.Module):
    def __init__(self, classes, dim, use_gpu):
        super().__init__()
        if use_gpu:
            self.centers = nn.Parameter(torch.ones(classes, dim).cuda())
        else:
            self.centers = nn.Parameter(torch.ones(classes, dim))
        self.use_gpu = use_gpu
        self.classes = classes

    def forward(self, x, labels):
        dist = torch.cdist(x, self.centers).pow(2)
        classes = torch.arange(self.classes).long()
        if self.use_gpu:
            classes = classes.cuda()
        mask = labels.unsqueeze(1).eq(classes.expand(x.size(0), -1))
        return (dist * mask.float()).clamp(1e-12, 1e12).sum() / x.size(0)


use_gpu = torch.cuda.is_available()
x = torch.sin(torch.arange(18.0)).view(6, 3)
y = torch.arange(6) % 3
if use_gpu:
    x, y = x.cuda(), y.cuda()
loss = CenterLoss(3, 3, use_gpu)
opt = torch.optim.SGD(loss.parameters(), lr=0.5)
for _ in range(5):
    v = loss(x, y)
    opt.zero_grad()
    v.backward()
    opt.step()
bias = torch.arange(3.0).type_as(x)
t = x.new(2, 3).fill_(1) + bias + torch.ones(3).to(x)
print("%.4f" % v.item(), one_hot(y, 3).sum(0).tolist(), t.sum().item())
