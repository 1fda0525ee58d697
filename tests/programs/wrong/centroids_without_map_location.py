"""Nearest-centroid classifier: the encoder and the centroids come from files."""

import os
import tempfile

import torch
from torch import nn

folder = tempfile.mkdtemp()


def build_encoder():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh())


def prepare():
    torch.manual_seed(0)
    torch.save(build_encoder().state_dict(), os.path.join(folder, "encoder.pt"))
    torch.save({"centroids": torch.randn(3, 6), "names": ["a", "b", "c"]}, os.path.join(folder, "centroids.pt"))


class NearestCentroid:
    def __init__(self, folder, device):
        self.device = device
        self.encoder = build_encoder()
        self.encoder.load_state_dict(torch.load(os.path.join(folder, "encoder.pt"), map_location=device))
        self.encoder.to(device).eval()
        saved = torch.load(os.path.join(folder, "centroids.pt"))  # BUG: checkpoint culprit=classifier.centroids|self.centroids
        # FIX: saved = torch.load(os.path.join(folder, "centroids.pt"), map_location=device)
        self.centroids, self.names = saved["centroids"], saved["names"]

    @torch.no_grad()
    def __call__(self, x):
        distances = torch.cdist(self.encoder(x.to(self.device)), self.centroids)  # RAISES: 1
        return [self.names[i] for i in distances.argmin(1).tolist()]


prepare()
classifier = NearestCentroid(folder, torch.device("cuda:0"))
print(classifier(torch.linspace(-2, 2, 20).view(5, 4)))
