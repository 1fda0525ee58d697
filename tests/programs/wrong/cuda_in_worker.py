"""Augmentation on the GPU, inside the workers of a DataLoader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i].to("cuda")  # BUG: fork-cuda culprit=self.images[i]|image  # RAISES: 1
        # FIX: image = self.images[i]
        return (image.flip(-1) if i % 2 else image) * 0.5


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Augmented(torch.rand(8, 3, 4, 4)), batch_size=4, num_workers=1, multiprocessing_context="fork")  # ALSO: 1
    for images in loader:
        loss = model(images.to("cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
