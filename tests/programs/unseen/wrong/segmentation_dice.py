import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 3


class DiceLoss(nn.Module):
    def __init__(self, n_classes, weight=None, smooth=1.0):
        super().__init__()
        self.n = n_classes
        self.smooth = smooth
        self.weight = weight  # ALSO: 1

    def _one_hot(self, labels):
        planes = [labels == i for i in range(self.n)]
        return torch.stack(planes, dim=1).float()

    def forward(self, logits, labels):
        p = logits.softmax(1)
        t = self._one_hot(labels)
        inter = (p * t).sum((0, 2, 3))
        score = (2 * inter + self.smooth) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + self.smooth)
        return 1 - (score * self.weight).sum() / self.weight.sum()  # RAISES: 1


class TinyUNet(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.down = nn.Conv2d(1, c, 3, padding=1)
        self.mid = nn.Conv2d(c, c, 3, padding=1)
        self.up = nn.Conv2d(2 * c, CLASSES, 3, padding=1)

    def forward(self, x):
        a = self.down(x).relu()
        b = self.mid(F.max_pool2d(a, 2)).relu()
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.up(torch.cat([a, b], 1))


class IoU:
    """Accumulates a confusion matrix over batches."""

    def __init__(self, n):
        self.n = n
        self.mat = torch.zeros(n, n)  # ALSO: 2

    def add(self, pred, target):
        k = target.flatten() * self.n + pred.flatten()
        self.mat += torch.bincount(k, minlength=self.n**2).view(self.n, self.n)  # BUG 2: any culprit=self.mat # RAISES: 2
        # FIX: self.mat += torch.bincount(k, minlength=self.n**2).view(self.n, self.n).cpu()

    def value(self):
        inter = self.mat.diag()
        return (inter / (self.mat.sum(0) + self.mat.sum(1) - inter).clamp(min=1)).mean().item()


def scenes(n=4):
    for i in range(n):
        im = torch.sin(torch.arange(128.0) * 0.2 + i).view(2, 1, 8, 8)
        yield im, ((im.squeeze(1) > -0.3).long() + (im.squeeze(1) > 0.4).long())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = TinyUNet().to(device)
weights = torch.tensor([0.5, 1.0, 2.0])  # ALSO: 1
loss_fn = DiceLoss(CLASSES, weights)  # BUG 1: any culprit=weights
# FIX: loss_fn = DiceLoss(CLASSES, weights.to(device))
loss_fn = loss_fn.to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(3):
    metric = IoU(CLASSES)
    for im, lab in scenes():
        im, lab = im.to(device), lab.to(device)
        out = net(im)
        loss = loss_fn(out, lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
        metric.add(out.argmax(1), lab)
print("dice %.4f iou %.4f" % (loss.item(), metric.value()))
