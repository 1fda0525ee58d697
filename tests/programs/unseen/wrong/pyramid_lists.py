"""Feature pyramid kept in plain Python containers."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pyramid(nn.Module):
    def __init__(self, widths=(4, 6, 8), out=5):
        super().__init__()
        self.stages = nn.ModuleList()
        self.lateral = []  # BUG: any culprit=self.lateral
        # FIX: self.lateral = nn.ModuleList()
        prev = 1
        for w in widths:
            self.stages.append(nn.Conv2d(prev, w, 3, stride=2, padding=1))
            self.lateral.append(nn.Conv2d(w, out, 1))  # ALSO: 1
            prev = w
        self.level_bias = [torch.full((1, out, 1, 1), 0.1 * i) for i in range(len(widths))]  # ALSO: 2

    def forward(self, x):
        feats = []
        for stage in self.stages:
            x = F.relu(stage(x))
            feats.append(x)
        top = None
        outs = []
        for i in reversed(range(len(feats))):
            y = self.lateral[i](feats[i])  # RAISES: 1
            y = y + self.level_bias[i]  # BUG: any culprit=self.level_bias # RAISES: 2
            # FIX: y = y + self.level_bias[i].to(y.device)
            if top is not None:
                y = y + F.interpolate(top, size=y.shape[-2:], mode="nearest")
            outs.append(y)
            top = y
        return outs[::-1]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Pyramid().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    im = torch.sin(torch.arange(2 * 256.0) / 9).view(2, 1, 16, 16).to(device)
    level_weight = [1.0, 0.5, 0.25]
    for _ in range(4):
        outs = net(im)
        loss = sum(w * (o - im.mean()).square().mean() for w, o in zip(level_weight, outs))
        opt.zero_grad()
        loss.backward()
        opt.step()
    anchor_scale = torch.tensor([8.0, 16.0, 32.0])  # ALSO: 3
    strength = torch.stack([o.abs().mean() for o in outs])
    best = (strength * anchor_scale).argmax()  # BUG: any culprit=anchor_scale # RAISES: 3
    # FIX: best = (strength * anchor_scale.to(device)).argmax()
    print("%.4f" % loss.item(), [tuple(o.shape[-2:]) for o in outs], best.item())


main()
