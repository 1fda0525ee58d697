"""Federated averaging with gradient upload; clients on the second GPU, server on the first."""
import torch
from torch import nn

SERVER = "cuda:0"
CLIENT = "cuda:1"


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))


class Client:
    def __init__(self, cid):
        self.model = make_model().to(CLIENT)
        x = torch.sin(torch.arange(40.0) * (cid + 1)).view(10, 4)
        self.x, self.y = x.to(CLIENT), x.mean(1, keepdim=True).to(CLIENT)
        self.weight = 1.0 / (cid + 1)

    def download(self, state):
        self.model.load_state_dict(state)

    def upload(self):
        self.model.zero_grad()
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        return loss.detach(), [p.grad.clone() for p in self.model.parameters()]  # ALSO: 1 # ALSO: 2


class Server:
    def __init__(self):
        self.model = make_model().to(SERVER)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.2, momentum=0.9)
        self.total = torch.zeros(1, device=SERVER)

    def round(self, clients):
        agg = None
        for c in clients:
            c.download(self.model.state_dict())
            loss, grads = c.upload()
            self.total += loss  # BUG: any culprit=loss # RAISES: 1
            # FIX: self.total += loss.to(SERVER)
            grads = [c.weight * g for g in grads]  # ALSO: 2
            agg = grads if agg is None else [a + g for a, g in zip(agg, grads)]
        norm = sum(c.weight for c in clients)
        for p, g in zip(self.model.parameters(), agg):
            p.grad = g / norm  # BUG: any culprit=g # RAISES: 2
            # FIX: p.grad = (g / norm).to(SERVER)
        self.opt.step()

    def evaluate(self, x, y):
        with torch.no_grad():
            return nn.functional.mse_loss(self.model(x), y).item()  # RAISES: 3 # ALSO: 3


def main():
    server = Server()
    clients = [Client(i) for i in range(3)]
    for _ in range(5):
        server.round(clients)
    final = [server.evaluate(c.x, c.y) for c in clients]  # BUG: any culprit=c.x
    # FIX: final = [server.evaluate(c.x.to(SERVER), c.y.to(SERVER)) for c in clients]
    print("%.4f" % server.total.item(), ["%.4f" % v for v in final])


if __name__ == "__main__":
    main()
