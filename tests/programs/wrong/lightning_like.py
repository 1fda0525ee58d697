"""A small framework in the Lightning manner, and a module written for it."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class LightModule(nn.Module):
    @property
    def device(self):
        return next(self.parameters()).device

    def transfer_batch_to_device(self, batch, device):
        if isinstance(batch, torch.Tensor):
            return batch.to(device)
        if isinstance(batch, tuple):
            return tuple(self.transfer_batch_to_device(b, device) for b in batch)
        return batch  # BUG: batch-not-moved culprit=batch[1][0]|anchors|boxes[0]|boxes
        # FIX: return [self.transfer_batch_to_device(b, device) for b in batch]


class Fit:
    def __init__(self, max_epochs, accelerator="gpu"):
        self.max_epochs = max_epochs
        self.root = torch.device("cuda:0" if accelerator == "gpu" else "cpu")

    def fit(self, module, loader):
        module.to(self.root)
        optimizer = module.configure_optimizers()
        for _ in range(self.max_epochs):
            for batch_idx, batch in enumerate(loader):  # ALSO: 1
                batch = module.transfer_batch_to_device(batch, self.root)  # ALSO: 1
                loss = module.training_step(batch, batch_idx)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"loss={loss.item():.4f}")


class Detector(LightModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(12, 8)
        self.box = nn.Linear(8, 4)
        self.register_buffer("priors", torch.rand(1, 4))

    def forward(self, images):
        return self.box(torch.relu(self.backbone(images.flatten(1))))

    def training_step(self, batch, batch_idx):
        images, boxes = batch  # ALSO: 1
        predicted = self(images)
        losses = [nn.functional.l1_loss(p + self.priors, b) for p, b in zip(predicted, boxes)]  # RAISES: 1  # ALSO: 1
        return torch.stack(losses).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def collate(samples):
    images, boxes = zip(*samples)
    return torch.stack(images), list(boxes)  # as many boxes as there happen to be


torch.manual_seed(0)
samples = [(torch.rand(3, 2, 2), torch.rand(1 + i % 3, 4)) for i in range(6)]
Fit(max_epochs=1).fit(Detector(), DataLoader(samples, batch_size=3, collate_fn=collate))
