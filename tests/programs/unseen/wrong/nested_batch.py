"""Detection-style batches: dict with lists inside; class-level constants."""
import torch
from torch import nn
from torch.utils.data import DataLoader


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])  # RAISES: 1
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


class Head(nn.Module):
    PRIORS = torch.tensor([[0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 1.0, 0.5], [0.0, 0.5, 0.5, 1.0], [0.5, 0.5, 1.0, 1.0]])  # ALSO: 2

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 16))

    def forward(self, im):
        delta = self.net(im).view(-1, 4, 4).tanh() * 0.1
        return self.PRIORS + delta  # BUG 2: any culprit=self.PRIORS # RAISES: 2
        # FIX: return self.PRIORS.to(delta.device) + delta


class Matcher:
    def __call__(self, pred, boxes):
        iou = box_iou(pred, boxes)
        return iou.max(0).indices, iou


def collate(items):
    return {
        "image": torch.stack([it["image"] for it in items]),
        "boxes": [it["boxes"] for it in items],
        "id": [it["id"] for it in items],
    }


def scenes():
    out = []
    for i in range(6):
        im = torch.sin(torch.arange(36.0) + i).view(6, 6)
        boxes = torch.tensor([[0.1, 0.1, 0.6, 0.5], [0.4, 0.5, 0.9, 0.9], [0.5, 0.1, 0.9, 0.4]])[: 1 + i % 3]
        out.append({"image": im, "boxes": boxes, "id": i})
    return out


def train(device):
    model, match = Head().to(device), Matcher()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        for batch in DataLoader(scenes(), batch_size=2, collate_fn=collate):
            batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}  # BUG 1: any culprit=batch["boxes"]
            # FIX: batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}
            # FIX: batch["boxes"] = [b.to(device) for b in batch["boxes"]]
            loss = 0.0
            for pred, boxes in zip(model(batch["image"]), batch["boxes"]):
                idx, iou = match(pred.detach(), boxes)
                loss = loss + (pred[idx] - boxes).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item(), iou.max().item()


torch.manual_seed(5)
print("%.4f %.4f" % train(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
