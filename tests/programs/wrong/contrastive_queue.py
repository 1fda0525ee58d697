"""MoCo: a momentum encoder and a queue of old keys."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class MoCo(nn.Module):
    def __init__(self, dim=8, size=32):
        super().__init__()
        self.encoder_q = nn.Linear(6, dim)
        self.encoder_k = copy.deepcopy(self.encoder_q).requires_grad_(False)
        self.queue = F.normalize(torch.randn(dim, size), dim=0)  # BUG: plain-attribute culprit=moco.queue
        # FIX: self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.ptr = 0

    @torch.no_grad()
    def enqueue(self, keys):
        n = len(keys)
        self.queue[:, self.ptr : self.ptr + n] = keys.T
        self.ptr = (self.ptr + n) % self.queue.shape[1]

    @torch.no_grad()
    def momentum_update(self, m=0.99):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            k.mul_(m).add_(q, alpha=1 - m)

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().detach()  # RAISES: 1
        self.enqueue(k)
        logits = torch.cat([pos, neg], dim=1) / 0.07
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))  # BUG: default-device culprit=torch.zeros(len(logits), dtype=torch.long)  # RAISES: 2
        # FIX: return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


torch.manual_seed(0)
gpu = torch.device("cuda", 0)
moco = MoCo().to(gpu)
opt = torch.optim.SGD(moco.encoder_q.parameters(), lr=0.03)
view = torch.randn(8, 6).to(gpu)
for _ in range(3):
    loss = moco(view, view + 0.01)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.3f}")
