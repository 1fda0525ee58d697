"""A large table stays on the CPU on purpose; only the rows that are needed travel."""
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.users = nn.Embedding(users, dim, sparse=True)
        self.items = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def place(self, device):
        self.device = device
        self.items.to(device)
        self.mlp.to(device)
        return self

    def forward(self, user, item):
        u = self.users(user).to(self.device)
        return self.mlp(torch.cat([u, self.items(item.to(self.device))], dim=-1)).squeeze(-1)


torch.manual_seed(0)
model = Recommender(1000, 50, 8).place(torch.device("cuda:0"))
sparse = torch.optim.SparseAdam(model.users.parameters(), lr=0.01)
dense = torch.optim.Adam([*model.items.parameters(), *model.mlp.parameters()], lr=0.01)
user, item, rating = torch.randint(0, 1000, (32,)), torch.randint(0, 50, (32,)), torch.rand(32)
for _ in range(3):
    loss = (model(user, item) - rating.to("cuda:0")).square().mean()
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
print(model.users.weight.device, model.items.weight.device, model.users.weight.grad.is_sparse, "%.3f" % loss)
