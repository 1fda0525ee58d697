# compare: exact
# devices: 2
"""Code as it was written for PyTorch 0.3 and still runs: .cuda(), torch.cuda.FloatTensor, Variable, set_device."""

import warnings

import torch
import torch.nn as nn
from torch.autograd import Variable

warnings.filterwarnings("ignore")
use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if use_cuda else torch.LongTensor
ByteTensor = torch.cuda.ByteTensor if use_cuda else torch.ByteTensor

torch.manual_seed(0)
if use_cuda:
    torch.cuda.manual_seed(0)
    torch.cuda.set_device(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = True

a = FloatTensor([1.0, 2.0, 3.0])
b = FloatTensor(2, 3).fill_(0.5)
c = LongTensor([2, 0])
mask = ByteTensor([1, 0, 1]).bool()
print(a.sum().item(), b.sum().item(), c.tolist(), a[mask].tolist(), a[c].tolist())
assert a.is_cuda == b.is_cuda == c.is_cuda == use_cuda
assert a.type() == ("torch.cuda.FloatTensor" if use_cuda else "torch.FloatTensor"), a.type()
assert isinstance(a, FloatTensor) and not isinstance(a, LongTensor)
d = torch.randn(4).type(FloatTensor)
e = d.type_as(c).float()
assert d.is_cuda == e.is_cuda == use_cuda
assert a.new(2).is_cuda == a.new_zeros(2).is_cuda == a.new_tensor([1]).is_cuda == use_cuda

model = nn.Sequential(nn.Linear(3, 8), nn.Sigmoid(), nn.Linear(8, 1))
criterion = nn.MSELoss(size_average=True)
if use_cuda:
    model.cuda()
    criterion = criterion.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
data, target = torch.randn(10, 3), torch.randn(10, 1)
for epoch in range(6):
    inputs, labels = (data.cuda(), target.cuda()) if use_cuda else (data, target)
    inputs, labels = Variable(inputs), Variable(labels, requires_grad=False)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    print("epoch %d loss %.6f" % (epoch, loss.data.item()))

if torch.cuda.device_count() > 1:
    torch.cuda.set_device(1)
    assert torch.cuda.current_device() == 1 and torch.ones(1).cuda().get_device() == 1
    assert torch.cuda.FloatTensor([1]).get_device() == 1
    with torch.cuda.device(0):
        assert torch.ones(1).cuda().get_device() == 0
    with torch.cuda.device_of(torch.ones(1).cuda(0)):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device("cuda:0")
    assert model.cuda(1)[0].weight.get_device() == 1
    model.cuda(0)
cpu_model = model.cpu()
print("%.6f" % cpu_model(data).data.numpy().sum())
if use_cuda:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    assert torch.zeros(1).is_cuda
    torch.set_default_tensor_type("torch.FloatTensor")
assert not torch.zeros(1).is_cuda
