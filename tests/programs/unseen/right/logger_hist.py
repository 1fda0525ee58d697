"""A logger that takes tensors from anywhere and keeps numbers."""
import json
import statistics
import torch
from torch import nn


class Log:
    def __init__(self):
        self.rows = []

    def add(self, **kw):
        self.rows.append({k: self.plain(v) for k, v in kw.items()})

    @staticmethod
    def plain(v):
        if torch.is_tensor(v):
            v = v.detach()
            return v.item() if v.numel() == 1 else v.cpu().flatten().tolist()
        return v

    def mean(self, key):
        return statistics.fmean(r[key] for r in self.rows)


torch.manual_seed(61)
devices = [d for d in ("cuda:0", "cuda:1") if torch.cuda.is_available()] or ["cpu", "cpu"]
log = Log()
for d in devices:
    net = nn.Linear(3, 2).to(d)
    x = torch.arange(12.0, device=d).view(4, 3) / 10
    out = net(x)
    out.logsumexp(1).mean().backward()
    q = torch.quantile(out.detach(), torch.tensor([0.25, 0.75], device=d))
    log.add(loss=out.mean(), q=q, grad=net.weight.grad.norm(), dev=str(d), n=len(x))
print(json.dumps([{k: (round(v, 3) if isinstance(v, float) else v) for k, v in r.items() if k != "q"} for r in log.rows]))
print("%.4f" % log.mean("grad"), max(map(len, (r["q"] for r in log.rows))))
