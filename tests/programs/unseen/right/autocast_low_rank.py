"""Low-rank adapters under autocast with a scaler; merged, unmerged, saved from the card, loaded on the host."""
import contextlib
import io

import torch
from torch import nn

device_type = "cuda" if torch.cuda.is_available() else "cpu"


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, alpha: float = 2.0):
        super().__init__()
        self.base = base
        base.weight.requires_grad_(False)
        self.a = nn.Parameter(torch.sin(torch.arange(rank * base.in_features * 1.0)).view(rank, -1) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.alpha = torch.tensor(alpha)  # a plain number on the host, of no dimension
        self.merged = False

    def delta(self):
        return self.alpha * (self.b @ self.a)

    def forward(self, x):
        y = self.base(x)
        return y if self.merged else y + self.alpha * (x @ self.a.t() @ self.b.t())

    @contextlib.contextmanager
    def merge(self):
        self.base.weight.data += self.delta().detach()
        self.merged = True
        try:
            yield
        finally:
            self.base.weight.data -= self.delta().detach()
            self.merged = False


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = LowRank(nn.Linear(6, 10), 2), LowRank(nn.Linear(10, 2), 2)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


def adapters(module):
    return {k: v for k, v in module.state_dict().items() if k.split(".")[-1] in ("a", "b")}


def main():
    torch.manual_seed(3)
    net = Net().to(device_type)
    x = torch.sin(torch.arange(96.0) * 0.7).view(16, 6).to(device_type)
    y = (x.sum(1) > 0).long()
    scaler = torch.amp.GradScaler(device_type, enabled=device_type == "cuda")
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.2)
    eye = torch.eye(2)  # of the host: turned into rows by an index of the host
    for step in range(6):
        opt.zero_grad()
        with torch.autocast(device_type, dtype=torch.bfloat16):
            logits = net(x)
            soft = eye[y.cpu()].to(logits.device)
            loss = -(soft * logits.float().log_softmax(1)).sum(1).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    print(f"{loss.item():.2f}", scaler.get_scale() > 0)

    with torch.no_grad():
        plain = net(x)
        with contextlib.ExitStack() as stack:
            for module in net.modules():
                if isinstance(module, LowRank):
                    stack.enter_context(module.merge())
            print(torch.allclose(net(x), plain, atol=1e-4))
    buffer = io.BytesIO()
    torch.save(adapters(net), buffer)
    buffer.seek(0)
    torch.manual_seed(3)
    fresh = Net()  # on the host
    missing = fresh.load_state_dict(torch.load(buffer, map_location="cpu"), strict=False).missing_keys
    with torch.no_grad():
        print(torch.allclose(fresh(x.cpu()), plain.cpu(), atol=1e-4), len(missing))


main()
