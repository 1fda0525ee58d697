"""Top-2 mixture of experts; the experts live on two cards, the router on the first."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CARDS = ["cuda:0", "cuda:1"]


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, width, hidden, n_experts, k=2):
        super().__init__()
        self.k = k
        self.router = nn.Linear(width, n_experts).to(CARDS[0])
        self.experts = nn.ModuleList()
        self.homes = []
        for e in range(n_experts):
            home = CARDS[e % len(CARDS)]
            self.experts.append(Expert(width, hidden).to(home))
            self.homes.append(home)
        self.usage = torch.zeros(n_experts)  # BUG: any culprit=self.usage
        # FIX: self.usage = torch.zeros(n_experts, device=CARDS[0])

    def forward(self, x):
        probs = self.router(x).softmax(-1)
        gate, pick = probs.topk(self.k, dim=-1)
        gate = gate / gate.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = (pick == e).nonzero(as_tuple=True)
            if len(row) == 0:
                continue
            y = expert(x[row].to(self.homes[e]))  # BUG: any culprit=y
            # FIX: y = expert(x[row].to(self.homes[e])).to(x.device)
            out = out.index_add(0, row, y * gate[row, slot].unsqueeze(1))  # RAISES: 2  # ALSO: 2
        self.usage += torch.bincount(pick.flatten(), minlength=len(self.experts))  # RAISES: 1
        return out, self.balance(probs, pick)

    def balance(self, probs, pick):
        hits = F.one_hot(pick, len(self.experts)).float().sum(1).mean(0)
        return (hits * probs.mean(0)).sum()


class Net(nn.Module):
    def __init__(self, n_in, width, n_classes):
        super().__init__()
        self.stem = nn.Linear(n_in, width).to(CARDS[0])
        self.moe = MoE(width, 32, 4)
        self.head = nn.Linear(width, n_classes).to(CARDS[1])

    def forward(self, x):
        h = torch.relu(self.stem(x))
        mixed, aux = self.moe(h)
        return self.head((h + mixed).to(CARDS[1])), aux


def blobs(n, gen):
    centres = 2.0 * torch.randn(5, 8, generator=gen)
    y = torch.randint(5, (n,), generator=gen)
    return centres[y] + 0.7 * torch.randn(n, 8, generator=gen), y


def main():
    torch.manual_seed(0)
    x, y = blobs(160, torch.Generator().manual_seed(4))
    x, y = x.to(CARDS[0]), y.to(CARDS[0])  # BUG: any culprit=y
    # FIX: x, y = x.to(CARDS[0]), y.to(CARDS[1])
    net = Net(8, 16, 5)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for epoch in range(6):
        logits, aux = net(x)
        task = F.cross_entropy(logits, y)  # RAISES: 3
        loss = task + 0.01 * aux.to(task.device)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"epoch {epoch} task {task.item():.4f} aux {aux.item():.4f}")
    share = (net.moe.usage / net.moe.usage.sum()).tolist()
    print("usage", [round(s, 3) for s in share])


main()
