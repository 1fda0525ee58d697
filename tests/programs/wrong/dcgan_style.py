"""A small GAN as in the tutorials: fixed noise, real and fake labels, two optimizers."""
import torch
import torch.nn as nn

nz, nf, batch_size = 4, 8, 6
ngpu = 1
device = torch.device("cuda:0" if (torch.cuda.is_available() and ngpu > 0) else "cpu")

torch.manual_seed(999)
netG = nn.Sequential(nn.Linear(nz, nf), nn.ReLU(True), nn.Linear(nf, 10), nn.Tanh()).to(device)
netD = nn.Sequential(nn.Linear(10, nf), nn.LeakyReLU(0.2), nn.Linear(nf, 1), nn.Sigmoid()).to(device)
criterion = nn.BCELoss()

fixed_noise = torch.randn(3, nz)  # BUG 2: default-device culprit=fixed_noise
# FIX: fixed_noise = torch.randn(3, nz, device=device)
real_label, fake_label = 1.0, 0.0
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
dataloader = [(torch.randn(batch_size, 10), torch.zeros(batch_size)) for _ in range(3)]

img_list = []
for i, data in enumerate(dataloader, 0):
    netD.zero_grad()
    real = data[0].to(device)
    label = torch.full((real.size(0),), real_label)  # BUG 1: default-device culprit=label
    # FIX: label = torch.full((real.size(0),), real_label, device=device)
    errD_real = criterion(netD(real).view(-1), label)  # RAISES: 1
    errD_real.backward()
    noise = torch.randn(real.size(0), nz, device=device)
    fake = netG(noise)
    label.fill_(fake_label)
    errD_fake = criterion(netD(fake.detach()).view(-1), label)
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    label.fill_(real_label)
    errG = criterion(netD(fake).view(-1), label)
    errG.backward()
    optimizerG.step()
    with torch.no_grad():
        img_list.append(netG(fixed_noise).detach().cpu())  # RAISES: 2
print(len(img_list), img_list[0].shape)
