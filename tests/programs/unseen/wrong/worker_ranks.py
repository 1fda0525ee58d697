"""Local-SGD simulation: every 'rank' owns a GPU; the server averages. Runs the ranks one after another."""
import torch
import torch.nn as nn


class Worker:
    def __init__(self, rank, world, seed=0):
        self.rank = rank
        self.device = torch.device(f"cuda:{rank}")
        torch.manual_seed(seed)
        self.model = nn.Linear(4, 1).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        idx = torch.arange(rank, 24, world)
        x = torch.sin(torch.arange(96.0)).view(24, 4)[idx]
        self.x = x.to(self.device)
        self.y = x.mean(1, keepdim=True).cuda()  # BUG: any culprit=self.y
        # FIX: self.y = x.mean(1, keepdim=True).to(self.device)

    def local_steps(self, k):
        for _ in range(k):
            loss = nn.functional.mse_loss(self.model(self.x), self.y)  # RAISES: 1
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.detach()

    def pull(self, state):
        self.model.load_state_dict(state)

    def push(self):
        return self.model.state_dict()


class Server:
    def __init__(self, workers):
        self.workers = workers
        self.home = workers[0].device

    def average(self):
        states = [w.push() for w in self.workers]
        mean = {}
        for k in states[0]:
            mean[k] = torch.stack([s[k] for s in states]).mean(0)  # BUG: any culprit=states # RAISES: 2
            # FIX: mean[k] = torch.stack([s[k].to(self.home) for s in states]).mean(0)
        for w in self.workers:
            w.pull(mean)
        return mean

    def spread(self, mean):
        d = 0.0
        for w in self.workers:
            for k, v in w.push().items():
                d += (v - mean[k]).norm().item()  # BUG: any culprit=v # RAISES: 3
                # FIX: d += (v.to(self.home) - mean[k]).norm().item()
        return d


def main(world=2):
    workers = [Worker(r, world) for r in range(world)]
    server = Server(workers)
    for round_ in range(4):
        losses = [w.local_steps(3).item() for w in workers]
        mean = server.average()
    print(["%.4f" % v for v in losses], "%.4f" % server.spread(mean), "%.4f" % mean["weight"].sum().item())


main()
