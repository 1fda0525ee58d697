# Fine-tune a few rows of an embedding: a hook zeroes the gradient of all others.
import torch
import torch.nn as nn

torch.manual_seed(0)
dev = torch.device("cuda")
emb = nn.Embedding(10, 4).to(dev)
clf = nn.Linear(4, 2).to(dev)

trainable = torch.zeros(10, 1)  # BUG: default-device culprit=trainable
# FIX: trainable = torch.zeros(10, 1, device=dev)
trainable[7:] = 1.0
emb.weight.register_hook(lambda grad: grad * trainable)  # RAISES: 1

frozen_before = emb.weight[:7].detach().clone()
opt = torch.optim.SGD([*emb.parameters(), *clf.parameters()], lr=0.5)
tokens = torch.tensor([1, 7, 8, 9, 3, 7], device=dev)
labels = torch.tensor([0, 1, 1, 1, 0, 1], device=dev)
for _ in range(3):
    loss = nn.functional.cross_entropy(clf(emb(tokens)), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("frozen rows unchanged:", torch.equal(frozen_before, emb.weight[:7].detach()))
