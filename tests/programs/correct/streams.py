"""Two streams, prefetching, events between them."""
import torch
from torch import nn


class Prefetcher:
    def __init__(self, batches, device):
        self.batches, self.device = iter(batches), device
        self.stream = torch.cuda.Stream(device)
        self.preload()

    def preload(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.next = None
            return
        with torch.cuda.stream(self.stream):
            self.next = batch.pin_memory().to(self.device, non_blocking=True)

    def __iter__(self):
        while self.next is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            batch = self.next
            batch.record_stream(torch.cuda.current_stream(self.device))
            self.preload()
            yield batch


torch.manual_seed(0)
device = torch.device("cuda:0")
model = nn.Linear(4, 2).to(device)
total = torch.zeros((), device=device)
for batch in Prefetcher([torch.full((3, 4), float(i)) for i in range(4)], device):
    total += model(batch).detach().abs().sum()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    squared = total.square()
done = side.record_event()
torch.cuda.current_stream().wait_event(done)
print(round((squared / total).item() - total.item(), 3) == 0.0)
