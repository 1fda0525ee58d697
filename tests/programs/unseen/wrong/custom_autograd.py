import torch
from torch.autograd import Function


class STEQuantize(Function):
    """Rounds to a codebook; straight-through gradient with clipping outside the book's range."""

    @staticmethod
    def forward(ctx, x, levels):
        d = (x.unsqueeze(-1) - levels).abs()  # RAISES: 1
        idx = d.argmin(-1)
        ctx.save_for_backward(x, levels)
        return levels[idx]

    @staticmethod
    def backward(ctx, g):
        x, levels = ctx.saved_tensors
        inside = (x >= levels.min()) & (x <= levels.max())
        grad = torch.zeros(x.shape)  # BUG 2: any culprit=grad
        # FIX: grad = torch.zeros(x.shape, device=x.device)
        grad[inside] = g[inside]  # RAISES: 2
        return grad, None


class ScaledSign(Function):
    @staticmethod
    def forward(ctx, w):
        scale = w.abs().mean(dim=1, keepdim=True)
        ctx.save_for_backward(w, scale)
        return w.sign() * scale

    @staticmethod
    def backward(ctx, g):
        w, scale = ctx.saved_tensors
        return (g * scale).cpu()  # BUG 3: any culprit=g
        # FIX: return g * scale


class QuantLinear(torch.nn.Module):
    def __init__(self, i, o, bits=3):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(o, i) * 0.3)
        self.levels = torch.linspace(-1, 1, 2**bits)  # BUG 1: any culprit=self.levels
        # FIX: self.register_buffer("levels", torch.linspace(-1, 1, 2**bits))

    def forward(self, x):
        return STEQuantize.apply(x, self.levels) @ ScaledSign.apply(self.weight).t()


torch.manual_seed(6)
dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
net = torch.nn.Sequential(QuantLinear(4, 8), torch.nn.ReLU(), QuantLinear(8, 1)).to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.sin(torch.arange(64.0, device=dev)).view(16, 4)
y = x.sum(1, keepdim=True)
for _ in range(10):
    loss = (net(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # RAISES: 3
    opt.step()
print("quantized loss", round(loss.item(), 4))
