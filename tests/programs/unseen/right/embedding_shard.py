"""A big embedding table kept on the host; only the rows in use are sent to the device and back."""
import torch
from torch import nn


class HostTable:
    def __init__(self, n, d):
        self.weight = torch.sin(torch.arange(n * d, dtype=torch.float)).view(n, d)
        self.sq = torch.zeros(n)

    def fetch(self, ids, device):
        uniq, inv = torch.unique(ids.cpu(), return_inverse=True)
        rows = self.weight[uniq].to(device).requires_grad_()
        return uniq, rows, rows[inv.to(device)]

    @torch.no_grad()
    def push(self, uniq, grad, lr=0.1):
        grad = grad.cpu()
        self.sq[uniq] += grad.square().mean(1)
        self.weight[uniq] -= lr * grad / (self.sq[uniq].sqrt() + 1e-8).unsqueeze(1)


def main():
    torch.manual_seed(13)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    table = HostTable(30, 4)
    head = nn.Linear(4, 1).to(dev)
    opt = torch.optim.SGD(head.parameters(), lr=0.05)
    for step in range(6):
        ids = (torch.arange(12, device=dev).view(4, 3) * (step + 2)) % 30
        uniq, rows, emb = table.fetch(ids, dev)
        loss = (head(emb.mean(1)).squeeze(1) - ids.float().mean(1) / 30).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        table.push(uniq, rows.grad)
    print("%.4f" % loss.item(), int((table.sq > 0).sum()), table.weight.device)


main()
