"""A vocabulary too large for the card: rows are fetched from the host, gradients are brought back sparse."""
import torch
from torch import nn
from torch.autograd import Function


class Fetch(Function):
    """Rows of a host table, on the device of the anchor."""

    @staticmethod
    def forward(ctx, table, rows, anchor):
        ctx.save_for_backward(rows)
        ctx.size = table.shape
        return table[rows].to(anchor.device)

    @staticmethod
    def backward(ctx, grad):
        (rows,) = ctx.saved_tensors
        values = grad.cpu().reshape(-1, ctx.size[1])
        return torch.sparse_coo_tensor(rows.reshape(1, -1), values, ctx.size), None, None


class HostEmbedding(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self._table = [nn.Parameter(torch.sin(torch.arange(n * dim * 1.0)).view(n, dim))]  # hidden from .to()
        self.anchor = nn.Parameter(torch.zeros(()))

    @property
    def table(self):
        return self._table[0]

    def forward(self, rows):
        unique, inverse = rows.unique(return_inverse=True)
        fetched = Fetch.apply(self.table, unique, self.anchor)
        return fetched[inverse] + self.anchor  # an index of the host, a tensor of the card


class Bag(nn.Module):
    def __init__(self, n, dim, classes):
        super().__init__()
        self.embed = HostEmbedding(n, dim)
        self.out = nn.Linear(dim, classes)

    def forward(self, rows, offsets):
        x = self.embed(rows)
        owner = torch.bucketize(torch.arange(len(rows)), offsets, right=True) - 1
        sums = x.new_zeros(len(offsets), x.shape[1]).index_add(0, owner.to(x.device), x)
        return self.out(sums / torch.bincount(owner).to(x.device)[:, None])


def main():
    torch.manual_seed(13)
    net = Bag(200, 6, 2)
    if torch.cuda.is_available():
        net = net.cuda()
    device = net.out.weight.device
    dense = torch.optim.SGD(net.parameters(), lr=0.2)
    sparse = torch.optim.SparseAdam([net.embed.table], lr=0.05)
    rows = (torch.arange(24) * 17) % 200
    offsets = torch.tensor([0, 5, 11, 14, 20])
    labels = torch.tensor([0, 1, 0, 1, 1])
    for step in range(5):
        loss = nn.functional.cross_entropy(net(rows, offsets), labels.to(device))
        dense.zero_grad()
        sparse.zero_grad()
        loss.backward()
        dense.step()
        sparse.step()
        print(step, f"{loss.item():.4f}")
    touched = net.embed.table.grad.coalesce().indices().unique()
    print(len(touched), net.embed.table.device, f"{net.embed.table[touched].norm().item():.3f}")
    matrix = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to(device)
    dense_matrix = matrix.to_dense()
    print((matrix @ torch.ones(3, 1, device=device)).flatten().tolist(), dense_matrix.sum().item())


main()
