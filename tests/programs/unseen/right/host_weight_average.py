"""Federated averaging: clients train on the card, the server's averages stay in host memory."""
import copy

import torch
from torch import nn

SERVER = torch.device("cpu")
WORKER = torch.device("cuda")


class Server:
    def __init__(self, model, decay=0.5):
        self.model = copy.deepcopy(model).to(SERVER)
        self.decay = decay
        self.control = {n: torch.zeros_like(p) for n, p in self.model.named_parameters()}

    def broadcast(self):
        return {k: v.clone() for k, v in self.model.state_dict().items()}

    @torch.no_grad()
    def merge(self, updates):
        sizes = torch.tensor([float(n) for n, _ in updates])
        share = sizes / sizes.sum()
        for name, p in self.model.named_parameters():
            delta = torch.stack([u[name] for _, u in updates])
            step = torch.einsum("c,c...->...", share, delta)
            self.control[name].mul_(self.decay).add_(step)
            p.add_(self.control[name])


class Client:
    def __init__(self, x, y, slot):
        self.x, self.y, self.slot = x, y, slot

    def train(self, net, state, epochs=2):
        net.load_state_dict(state)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(epochs):
            for rows in torch.arange(len(self.x)).split(16):
                xb = self.x[rows].to(WORKER, non_blocking=True)
                yb = self.y[rows].to(WORKER, non_blocking=True)
                loss = nn.functional.cross_entropy(net(xb), yb)
                opt.zero_grad()
                loss.backward()
                opt.step()
        moved = {n: p.detach().to(SERVER) - state[n] for n, p in net.named_parameters()}
        return len(self.x), moved


def make_clients(count, g):
    w = torch.randn(8, 3, generator=g)
    clients = []
    for c in range(count):
        n = 24 + 8 * c
        x = torch.randn(n, 8, generator=g) + 0.5 * torch.randn(8, generator=g)
        clients.append(Client(x, (x @ w).argmax(1), c))
    return clients, w


@torch.no_grad()
def server_accuracy(server, w, g):
    """The server scores its own weights without touching the card."""
    x = torch.randn(300, 8, generator=g)
    return (server.model(x).argmax(1) == (x @ w).argmax(1)).float().mean().item()


def main():
    torch.manual_seed(88)
    g = torch.Generator().manual_seed(88)
    clients, w = make_clients(4, g)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(WORKER)
    server = Server(net)
    for rnd in range(5):
        updates = [c.train(net, server.broadcast()) for c in clients]
        server.merge(updates)
        drift = torch.stack([u["0.weight"].norm() for _, u in updates])
        print(rnd, f"acc {server_accuracy(server, w, g):.3f} drift {drift.mean().item():.4f}")


main()
