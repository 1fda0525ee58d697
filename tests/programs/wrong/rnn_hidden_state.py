# Character RNN, truncated backpropagation through time.
import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, n_tokens, n_hidden=12, n_layers=2):
        super().__init__()
        self.n_hidden, self.n_layers = n_hidden, n_layers
        self.embed = nn.Embedding(n_tokens, n_hidden)
        self.lstm = nn.LSTM(n_hidden, n_hidden, n_layers, batch_first=True)
        self.fc = nn.Linear(n_hidden, n_tokens)

    def forward(self, x, hidden):
        out, hidden = self.lstm(self.embed(x), hidden)  # RAISES: 1
        return self.fc(out), hidden

    def init_hidden(self, batch_size):
        h = torch.zeros(self.n_layers, batch_size, self.n_hidden)  # BUG: default-device culprit=hidden[0]|h
        # FIX: weight = next(self.parameters())
        # FIX: h = weight.new_zeros(self.n_layers, batch_size, self.n_hidden)
        c = torch.zeros_like(h)  # ALSO: 1
        return h, c


torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog " * 4
chars = sorted(set(text))
encoded = torch.tensor([chars.index(c) for c in text])
train_on_gpu = torch.cuda.is_available()

net = CharRNN(len(chars))
if train_on_gpu:
    net.cuda()
criterion = nn.CrossEntropyLoss()
opt = torch.optim.RMSprop(net.parameters(), lr=0.01)

rows = encoded[:160].view(4, 40)
hidden = net.init_hidden(4)
for start in range(0, 30, 10):
    x, y = rows[:, start : start + 10], rows[:, start + 1 : start + 11]
    if train_on_gpu:
        x, y = x.cuda(), y.cuda()
    hidden = tuple(h.detach() for h in hidden)
    opt.zero_grad()
    out, hidden = net(x, hidden)
    loss = criterion(out.reshape(-1, len(chars)), y.reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5)
    opt.step()
    print("loss %.3f" % loss.item())
