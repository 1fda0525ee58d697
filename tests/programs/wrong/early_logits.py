"""Serving: results are sent to the host asynchronously and turned into text at once."""

import torch
from torch import nn


class Server:
    def __init__(self, vocabulary):
        torch.manual_seed(0)
        self.vocabulary = vocabulary
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.model = nn.Linear(8, len(vocabulary)).to(self.device).eval()

    @torch.inference_mode()
    def answer(self, features):
        logits = self.model(features.pin_memory().to(self.device, non_blocking=True))
        best = logits.argmax(-1).to("cpu", non_blocking=True)  # BUG: read-too-early culprit=best
        # FIX: best = logits.argmax(-1).to("cpu")
        return [self.vocabulary[i] for i in best.tolist()]  # RAISES: none  # ALSO: 1


server = Server(["yes", "no", "perhaps"])
features = torch.linspace(-1, 1, 32).view(4, 8)
print(server.answer(features))
