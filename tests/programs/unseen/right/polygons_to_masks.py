"""Annotations stay on the host as lists; masks are painted there, losses are on the card."""
import math

import torch
from torch import nn

SIZE = 12


class Painter:
    """Paints shapes; its coordinates are on the host and are moved by whoever needs them elsewhere."""

    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")

    @classmethod
    def circle(cls, cx, cy, r):
        return (cls.xs - cx).square() + (cls.ys - cy).square() <= r * r

    @classmethod
    def box(cls, x0, y0, x1, y1):
        return (cls.xs >= x0) & (cls.xs < x1) & (cls.ys >= y0) & (cls.ys < y1)


def scene(i):
    objects = [("circle", (4 + i % 3, 5, 2.5)), ("box", (7, 2 + i % 4, 11, 6 + i % 4))]
    masks = torch.stack([getattr(Painter, kind)(*args) for kind, args in objects])
    image = masks.float().sum(0) + 0.1 * torch.sin(torch.arange(SIZE * SIZE * 1.0) + i).view(SIZE, SIZE)
    return image[None], masks


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 1))

    def forward(self, image):
        b = len(image)
        coords = torch.stack([Painter.xs, Painter.ys]).to(image) / SIZE
        return self.net(torch.cat([image, coords.expand(b, -1, -1, -1)], 1))


def boxes_of(mask):
    """Bounding boxes by numpy-like indexing on the host."""
    where = mask.cpu().nonzero()
    if not len(where):
        return None
    (y0, x0), (y1, x1) = where.amin(0).tolist(), where.amax(0).tolist()
    return x0, y0, x1, y1


def iou(a, b):
    both, either = (a & b).sum(), (a | b).sum()
    return (both / either.clamp(min=1)).item()


def main():
    torch.manual_seed(4)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, masks = (torch.stack(t) for t in zip(*(scene(i) for i in range(6))))
    net = Segmenter().to(dev)
    weight = torch.tensor(3.0)
    opt = torch.optim.Adam(net.parameters(), 0.02)
    for step in range(10):
        logits = net(images.to(dev))
        target = masks.to(logits)
        each = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        loss = (each * torch.where(target > 0, weight, 1.0)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"loss {loss.item():.4f}")
    with torch.no_grad():
        found = net(images.to(dev)) > 0
    print(f"iou {iou(found.cpu(), masks):.3f}", boxes_of(masks[0, 1]), boxes_of(torch.zeros(3, 3)))
    flat = images.to(dev).flatten(1)
    center = torch.tensor([SIZE // 2 * SIZE + SIZE // 2])
    print([round(v, 3) for v in flat[:, center].flatten().tolist()])
    flat[masks[:, 0].flatten(1)] = 0.0  # a mask of the host into a tensor of the card
    kept = flat[~masks[:, 0].flatten(1)]
    print(len(kept), f"{kept.mean().item():.4f}", f"{math.sqrt(kept.var().item()):.4f}")


main()
