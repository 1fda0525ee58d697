import torch
from torch import nn

encoder_device, decoder_device = torch.device("cuda:0"), torch.device("cuda:1")


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        skip = torch.relu(self.conv(x))
        return self.pool(skip), skip


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, o, 2, stride=2)
        self.conv = nn.Conv2d(2 * o, o, 3, padding=1)

    def forward(self, x, skip):
        x = self.up(x)
        return torch.relu(self.conv(torch.cat([x, skip], dim=1)))  # RAISES: 1  # ALSO: 1


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = Down(1, 4).to(encoder_device)
        self.middle = nn.Conv2d(4, 8, 3, padding=1).to(decoder_device)
        self.up = Up(8, 4).to(decoder_device)
        self.out = nn.Conv2d(4, 1, 1).to(decoder_device)

    def forward(self, image):
        x, skip = self.down(image.to(encoder_device))
        x = torch.relu(self.middle(x.to(decoder_device)))
        x = self.up(x, skip)  # BUG: handoff-missing culprit=skip
        # FIX: x = self.up(x, skip.to(decoder_device))
        return self.out(x)


torch.manual_seed(0)
unet = UNet()
optimizer = torch.optim.Adam(unet.parameters(), lr=1e-2)
image = torch.rand(2, 1, 8, 8)
for _ in range(2):
    loss = nn.functional.mse_loss(unet(image), image.to(decoder_device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
