"""Single-scale detector head with anchor assignment (YOLO flavoured)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Detect(nn.Module):
    stride = 4

    def __init__(self, anchors, classes):
        super().__init__()
        self.nc = classes
        self.na = len(anchors)
        self.anchors = torch.tensor(anchors).float()  # BUG: any culprit=self.anchors
        # FIX: self.register_buffer("anchors", torch.tensor(anchors).float())
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU()
        )
        self.head = nn.Conv2d(8, self.na * (5 + classes), 1)

    def forward(self, im):
        p = self.head(self.backbone(im))
        b, _, h, w = p.shape
        return p.view(b, self.na, 5 + self.nc, h, w).permute(0, 1, 3, 4, 2)


def build_targets(p, targets, anchors):
    """targets: rows of (image, class, x, y, w, h), normalised"""
    gain = torch.ones(6)  # BUG: any culprit=gain
    # FIX: gain = torch.ones(6, device=targets.device)
    gain[2:] = torch.tensor(p.shape)[[3, 2, 3, 2]]
    t = targets * gain  # RAISES: 2
    wh = t[:, 4:6]
    ratio = wh[None] / anchors[:, None]  # RAISES: 1
    worst = torch.max(ratio, 1 / ratio).max(2).values
    a, row = (worst < 4).nonzero().T
    t = t[row]
    b, c = t[:, :2].long().T
    gij = t[:, 2:4].long()
    gi, gj = gij[:, 0].clamp(0, p.shape[3] - 1), gij[:, 1].clamp(0, p.shape[2] - 1)
    return (b, a, gj, gi), torch.cat([t[:, 2:4] - gij, wh[row]], 1), c


class ComputeLoss:
    def __init__(self, model):
        device = next(model.parameters()).device
        self.bce_cls = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5], device=device))
        self.bce_obj = nn.BCEWithLogitsLoss()
        self.model = model

    def __call__(self, p, targets):
        idx, box, cls = build_targets(p, targets, self.model.anchors)
        obj = torch.zeros(p.shape[:4], device=p.device)
        ps = p[idx]
        lbox = F.smooth_l1_loss(torch.cat([ps[:, :2].sigmoid(), ps[:, 2:4].exp()], 1), box)
        t = torch.zeros(ps[:, 5:].shape, device=p.device)
        t[torch.arange(len(cls)), cls] = 1.0
        obj[idx] = torch.ones(len(cls))  # BUG: any culprit=torch.ones(len(cls)) # RAISES: 3
        # FIX: obj[idx] = torch.ones(len(cls), device=p.device)
        return lbox + self.bce_obj(p[..., 4], obj) + self.bce_cls(ps[:, 5:], t)


def main():
    torch.manual_seed(2)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = Detect([(2, 3), (4, 2), (3, 3)], classes=3).to(device)
    compute_loss = ComputeLoss(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    im = torch.sin(torch.arange(2 * 3 * 32 * 32.0)).view(2, 3, 32, 32).to(device)
    targets = torch.tensor([[0, 1, 0.3, 0.4, 0.3, 0.4], [1, 2, 0.7, 0.2, 0.5, 0.3], [1, 0, 0.5, 0.5, 0.4, 0.4]])
    targets = targets.to(device)
    for _ in range(5):
        loss = compute_loss(model(im), targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss %.4f" % loss.item())


main()
