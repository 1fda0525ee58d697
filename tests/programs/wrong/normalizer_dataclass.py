"""Statistics and lookup tables kept on a frozen dataclass."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Preprocess:
    mean: Tensor
    std: Tensor
    palette: Tensor

    def normalize(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std  # RAISES: 1

    def colourize(self, classes: Tensor) -> Tensor:
        return self.palette[classes]  # RAISES: 2


IMAGENET = Preprocess(
    mean=torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1),  # BUG: default-device|plain-attribute culprit=IMAGENET.mean
    # FIX: mean=torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1),
    std=torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1),
    palette=torch.tensor([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=torch.uint8),  # BUG: default-device|index|plain-attribute culprit=IMAGENET.palette
    # FIX: palette=torch.tensor([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=torch.uint8, device="cuda"),
)


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        return self.conv(IMAGENET.normalize(image))


torch.manual_seed(0)
net = Segmenter().to("cuda").eval()
frame = torch.rand(1, 3, 6, 6, device="cuda")
with torch.no_grad():
    picture = IMAGENET.colourize(net(frame).argmax(1))
print(picture.shape, picture.dtype)
