# Warm up on the CPU (debugging habit), then continue on the GPU. Includes a hand written LAMB-ish optimizer.
import torch
import torch.nn as nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), wd=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, wd=wd))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["m"] = torch.zeros(p.shape)  # BUG: any culprit=st["m"]
                    # FIX: st["m"] = torch.zeros_like(p)
                m = st["m"]
                update = (m * b1 + p.grad * (1 - b1)).sign()  # RAISES: 1
                p.mul_(1 - group["lr"] * group["wd"]).add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def batch(i):
    x = torch.cos(torch.arange(20.0) + i).view(5, 4)
    return x, x.mean(1, keepdim=True)


def one_step(model, opt, x, y):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()  # RAISES: 2
    return loss.item()


def main():
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for i in range(3):
        warm = one_step(model, adam, *batch(i))

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)  # BUG: any culprit=adam.state
    # FIX: model.to(device)
    # FIX: adam.load_state_dict(adam.state_dict())
    for i in range(3, 6):
        x, y = (t.to(device) for t in batch(i))
        mid = one_step(model, adam, x, y)

    lion = Lion(model.parameters(), lr=1e-3, wd=0.01)
    for i in range(6, 9):
        x, y = (t.to(device) for t in batch(i))
        end = one_step(model, lion, x, y)
    print("%.4f %.4f %.4f" % (warm, mid, end))


main()
