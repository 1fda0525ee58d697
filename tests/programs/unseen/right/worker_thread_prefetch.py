"""A thread fills a bounded queue with batches on the card; another writes metrics on the host."""
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"


class Prefetcher(threading.Thread):
    def __init__(self, batches, device, depth=2):
        super().__init__(daemon=True)
        self.batches, self.device = batches, device
        self.queue = queue.Queue(depth)
        self.error = None

    def run(self):
        try:
            for batch in self.batches:
                if torch.cuda.is_available():
                    batch = [t.pin_memory() for t in batch]
                self.queue.put([t.to(self.device) for t in batch])
        except BaseException as error:
            self.error = error
        finally:
            self.queue.put(None)

    def __iter__(self):
        self.start()
        while (batch := self.queue.get()) is not None:
            yield batch
        if self.error is not None:
            raise self.error


class Logger:
    def __init__(self, classes):
        self.queue = queue.SimpleQueue()
        self.totals = torch.zeros(classes)
        self.losses = []
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def loop(self):
        while True:
            item = self.queue.get()
            if item is None:
                return
            loss, counts = item
            self.losses.append(loss)
            self.totals += counts

    def log(self, loss, counts):
        self.queue.put((loss.item(), counts.float().cpu()))

    def close(self):
        self.queue.put(None)
        self.thread.join()


def batches(n, size):
    for i in range(n):
        x = torch.sin(torch.arange(size * 4.0) * 0.3 + i).view(size, 4)
        yield [x, (x.sum(1) > 0).long()]


def main():
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 2)).to(DEVICE)
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    logger = Logger(2)
    for x, y in Prefetcher(batches(8, 6), DEVICE):
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        logger.log(loss.detach(), torch.bincount(logits.argmax(1), minlength=2))
    logger.close()
    print([round(v, 4) for v in logger.losses])
    print(logger.totals.tolist())


main()
