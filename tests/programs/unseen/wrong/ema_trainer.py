import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}  # BUG: any culprit=self.shadow
        # FIX: self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            if v.dtype.is_floating_point:
                self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)  # RAISES: 1 # ALSO: 1

    def apply_to(self, model):
        model.load_state_dict(self.shadow)


class Trainer:
    def __init__(self, model, lr=0.1, device=None):
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.class_weight = torch.tensor([0.2, 0.3, 0.5])  # BUG: any culprit=self.class_weight
        # FIX: self.class_weight = torch.tensor([0.2, 0.3, 0.5], device=self.device)
        self.loss_fn = nn.CrossEntropyLoss(weight=self.class_weight)  # ALSO: 2
        self.ema = EMA(self.model, 0.9)
        self.history = []

    def step(self, batch):
        x, y = batch
        x, y = x.to(self.device), y.to(self.device)
        loss = self.loss_fn(self.model(x), y)  # RAISES: 2
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.ema.update(self.model)
        return loss.item()

    def fit(self, loader, epochs):
        for _ in range(epochs):
            total = sum(self.step(b) for b in loader)
            self.history.append(total / len(loader))

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        correct = torch.zeros((), device=self.device)
        confusion = torch.zeros(3, 3, dtype=torch.long, device=self.device)
        for x, y in loader:  # ALSO: 3
            pred = self.model(x.to(self.device)).argmax(1)
            correct += (pred == y).sum()  # BUG: any culprit=y # RAISES: 3
            # FIX: y = y.to(self.device)
            # FIX: correct += (pred == y).sum()
            confusion.view(-1).index_add_(0, pred * 3 + y, torch.ones_like(pred))
        return correct.item() / len(loader.dataset), confusion.diag().tolist()


def data(n=48):
    x = torch.sin(torch.arange(n * 4, dtype=torch.float32)).view(n, 4)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    return TensorDataset(x, y)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 3))
trainer = Trainer(net)
trainer.fit(DataLoader(data(), batch_size=12), epochs=4)
trainer.ema.apply_to(trainer.model)
acc, diag = trainer.evaluate(DataLoader(data(), batch_size=12))
print(["%.3f" % h for h in trainer.history], round(acc, 3), diag)
