"""Siamese verification net that should live on the GPU given on the command line."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu_id", type=int, default=1)
    parser.add_argument("--margin", type=float, default=0.4)
    return parser.parse_args()


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
        self.metric = nn.Bilinear(4, 4, 1)

    def forward(self, a, b):
        ea, eb = self.embed(a), self.embed(b)  # RAISES: 1
        return F.pairwise_distance(ea, eb), self.metric(ea, eb).squeeze(1)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, dist, same):
        pos = same * dist.pow(2)  # RAISES: 2
        neg = (1 - same) * (self.margin - dist).clamp(min=0).pow(2)
        return (pos + neg).mean()


def pairs(step):
    a = torch.sin(torch.arange(48.0) + step).view(8, 6)
    b = torch.where(torch.arange(8)[:, None] % 2 == 0, a * 1.01, a.flip(0))
    return a, b, (torch.arange(8) % 2 == 0).float()


def main():
    args = get_args()
    device = torch.device("cuda:%d" % args.gpu_id if torch.cuda.is_available() else "cpu")
    torch.manual_seed(29)
    model = Siamese().to(device)
    loss_fn = ContrastiveLoss(args.margin)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(10):
        a, b, same = pairs(step)  # ALSO: 2
        if torch.cuda.is_available():
            a, b = a.cuda(), b.cuda()  # BUG: any culprit=a # ALSO: 2
            # FIX: a, b = a.to(device), b.to(device)
        dist, score = model(a, b)
        loss = loss_fn(dist, same)  # BUG: any culprit=same
        # FIX: loss = loss_fn(dist, same.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    threshold = torch.full((8,), args.margin / 2, device="cuda" if torch.cuda.is_available() else "cpu")  # BUG: any culprit=threshold
    # FIX: threshold = torch.full((8,), args.margin / 2, device=device)
    verdict = dist.detach() < threshold  # RAISES: 3
    print("%.4f" % loss.item(), verdict.int().tolist())


if __name__ == "__main__":
    main()
