# Gram-matrix style transfer on random-free patterns, with an image normaliser and a tiny "VGG"
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)

cnn_mean = torch.tensor([0.485, 0.456, 0.406])  # BUG: any culprit=cnn_mean
# FIX: cnn_mean = torch.tensor([0.485, 0.456, 0.406]).to(device)
cnn_std = torch.tensor([0.229, 0.224, 0.225]).to(device)


def pattern(kind, size=12):
    r = torch.arange(size, dtype=torch.float)
    yy, xx = torch.meshgrid(r, r, indexing="ij")
    img = torch.stack([(xx / 3).sin(), (yy / 2).cos(), ((xx + yy) / 4).sin()])
    if kind == "style":
        img = img.flip(0).roll(2, dims=1)
    return ((img + 1) / 2).unsqueeze(0)


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = mean.view(-1, 1, 1)
        self.std = std.view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std  # RAISES: 1 # RAISES: 3


def gram(x):
    b, c, h, w = x.shape
    f = x.view(b * c, h * w)
    return f @ f.t() / (b * c * h * w)


class StyleLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = gram(target).detach()

    def forward(self, x):
        self.loss = F.mse_loss(gram(x), self.target)
        return x


class ContentLoss(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()

    def forward(self, x):
        self.loss = F.mse_loss(x, self.target)  # RAISES: 2
        return x


vgg = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU()).to(device).eval()


def build(content, style):
    seq = nn.Sequential(Normalization(cnn_mean, cnn_std).to(device))
    styles, contents = [], []
    for i, layer in enumerate(vgg):
        seq.add_module(f"l{i}", nn.ReLU(inplace=False) if isinstance(layer, nn.ReLU) else layer)
        if isinstance(layer, nn.Conv2d):
            goal = seq(content).cpu()  # BUG: any culprit=goal
            # FIX: goal = seq(content)
            contents.append(ContentLoss(goal))
            seq.add_module(f"c{i}", contents[-1])
            styles.append(StyleLoss(seq(style)))
            seq.add_module(f"s{i}", styles[-1])
    return seq, styles, contents


content_img = pattern("content").to(device)
style_img = pattern("style")  # BUG: any culprit=style_img
# FIX: style_img = pattern("style").to(device)
net, styles, contents = build(content_img, style_img)
img = content_img.clone().requires_grad_(True)
opt = torch.optim.Adam([img], lr=0.02)
for it in range(6):
    opt.zero_grad()
    net(img)
    total = 100 * sum(s.loss for s in styles) + sum(c.loss for c in contents)
    total.backward()
    opt.step()
print("%.5f %.4f" % (total.item(), img.mean().item()))
