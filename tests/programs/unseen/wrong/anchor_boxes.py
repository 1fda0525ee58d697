"""One-stage detector on synthetic squares: anchors, matching, focal and box loss."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


def anchor_grid(size, stride, scales):
    centres = [(i + 0.5) * stride for i in range(size // stride)]
    boxes = [(cx, cy, s, s) for cy, cx in itertools.product(centres, centres) for s in scales]
    return torch.tensor(boxes)


def to_corners(b):
    return torch.cat([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1)


def iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])  # RAISES: 3
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda x: (x[:, 2:] - x[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


class Detector(nn.Module):
    def __init__(self, n_scales, n_classes):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1), nn.ReLU()
        )
        self.cls = nn.Conv2d(16, n_scales * n_classes, 1)
        self.reg = nn.Conv2d(16, n_scales * 4, 1)
        self.n_classes = n_classes

    def forward(self, x):
        f = self.trunk(x)
        split = lambda t, k: t.permute(0, 2, 3, 1).reshape(len(x), -1, k)
        return split(self.cls(f), self.n_classes), split(self.reg(f), 4)


def encode(anchors, boxes):
    return torch.cat([(boxes[:, :2] - anchors[:, :2]) / anchors[:, 2:], (boxes[:, 2:] / anchors[:, 2:]).log()], 1)


def scene(batch):
    imgs, boxes, kinds = 0.1 * torch.rand(batch, 1, 32, 32), [], []
    for i in range(batch):
        kind = int(torch.randint(2, ()))
        side = 6 if kind == 0 else 12
        x, y = (int(v) for v in torch.randint(0, 32 - side, (2,)))
        imgs[i, 0, y:y + side, x:x + side] += 1.0
        boxes.append([[x + side / 2, y + side / 2, side, side]])
        kinds.append([kind])
    return imgs, torch.tensor(boxes, dtype=torch.float), torch.tensor(kinds)


class DetectionLoss:
    def __init__(self, anchors, class_weight):
        self.anchors = anchors  # ALSO: 3
        self.class_weight = class_weight  # BUG: any culprit=self.class_weight
        # FIX: self.class_weight = class_weight.to(anchors.device)

    def match(self, boxes, kinds):
        overlap = iou(to_corners(self.anchors), to_corners(boxes))
        best, owner = overlap.max(1)
        best[overlap.argmax(0)] = 1.0
        labels = torch.full((len(self.anchors),), -1)  # BUG: any culprit=labels
        # FIX: labels = torch.full((len(self.anchors),), -1, device=boxes.device)
        labels[best > 0.4] = kinds[owner[best > 0.4]]  # RAISES: 2
        return labels, owner

    def __call__(self, scores, deltas, boxes, kinds):
        total = 0.0
        for s, d, b, k in zip(scores, deltas, boxes, kinds):
            labels, owner = self.match(b, k)
            hot = F.one_hot(labels + 1, s.shape[1] + 1)[:, 1:].float()
            p = s.sigmoid()
            bce = F.binary_cross_entropy_with_logits(s, hot, reduction="none")
            focal = ((hot - p).abs() ** 2 * bce * self.class_weight).sum()  # RAISES: 1
            fg = labels >= 0
            box = F.smooth_l1_loss(d[fg], encode(self.anchors[fg], b[owner[fg]]), reduction="sum")
            total = total + (focal + box) / fg.sum()
        return total / len(scores)


def main():
    torch.manual_seed(8)
    device = torch.device("cuda")
    scales = (6.0, 12.0)
    anchors = anchor_grid(32, 8, scales)  # BUG: any culprit=anchors
    # FIX: anchors = anchor_grid(32, 8, scales).to(device)
    net = Detector(len(scales), 2).to(device)
    loss_fn = DetectionLoss(anchors, torch.tensor([1.5, 1.0]))  # ALSO: 1
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for it in range(16):
        imgs, boxes, kinds = (t.to(device) for t in scene(8))
        loss = loss_fn(*net(imgs), boxes, kinds)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 4 == 3:
            print(it + 1, f"{loss.item():.4f}")


main()
