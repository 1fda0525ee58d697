import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoCo(nn.Module):
    """Momentum contrast with a plain FIFO of keys."""

    def __init__(self, encoder, dim=8, K=16, m=0.99, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = encoder
        self.encoder_k = copy.deepcopy(encoder)
        for p in self.encoder_k.parameters():
            p.requires_grad_(False)
        grid = torch.cos(torch.arange(dim * K, dtype=torch.float)).view(dim, K)
        self.queue = F.normalize(grid, dim=0)  # BUG: any culprit=self.queue
        # FIX: self.register_buffer("queue", F.normalize(grid, dim=0))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.data.mul_(self.m).add_(q.data, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.queue[:, self.ptr:self.ptr + n] = keys.t()
        self.ptr = (self.ptr + n) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)  # RAISES: 3
        pos = (q * k).sum(dim=1, keepdim=True)
        neg = q @ self.queue.clone().detach()  # RAISES: 1
        logits = torch.cat([pos, neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long)  # BUG: any culprit=labels
        # FIX: labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


class Views:
    def __init__(self, n):
        self.base = torch.sin(torch.arange(n * 3 * 6 * 6, dtype=torch.float)).view(n, 3, 6, 6)

    def __iter__(self):
        for i in range(0, len(self.base), 4):
            im = self.base[i:i + 4]
            yield im, im.flip(-1)


def build_encoder(dim):
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, dim))


def run(epochs=2):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = MoCo(build_encoder(8)).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03)
    for _ in range(epochs):
        for a, b in Views(16):
            a = a.to(device)  # ALSO: 3
            logits, labels = model(a, b)  # BUG: any culprit=b
            # FIX: logits, labels = model(a, b.to(device))
            loss = F.cross_entropy(logits, labels)  # RAISES: 2
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


print("contrastive: %.4f" % run())
