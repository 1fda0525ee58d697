"""Language experts: two layers per language, looked up by name."""
from typing import Dict, List

import torch
from torch import Tensor, nn


class Adapters(nn.Module):
    def __init__(self, languages: List[str], width: int):
        super().__init__()
        self.shared = nn.Linear(width, width)
        self.experts: Dict[str, List[nn.Module]] = {}  # ALSO: 1
        for language in languages:
            self.experts[language] = [nn.Linear(width, 2 * width), nn.Linear(2 * width, width)]  # BUG: plain-container culprit=adapters.experts["en"][0].weight
            # FIX: self.experts[language] = self.add_expert(language, nn.Linear(width, 2 * width), nn.Linear(2 * width, width))

    def add_expert(self, language: str, *layers: nn.Module) -> nn.ModuleList:
        self.add_module(f"expert_{language}", nn.ModuleList(layers))
        return getattr(self, f"expert_{language}")

    def forward(self, x: Tensor, language: str) -> Tensor:
        up, down = self.experts[language]
        return self.shared(x) + down(torch.relu(up(x)))  # RAISES: 1


torch.manual_seed(0)
device = torch.device("cuda")
adapters = Adapters(["en", "de"], 6).to(device)
for language in ("en", "de"):
    y = adapters(torch.ones(2, 6, device=device), language)
    print(language, tuple(y.shape), y.device.type)
