# compare: exact
# devices: 1
"""Linear algebra, FFT and special functions: least squares, PCA, filters, a Gaussian process, all on the device."""

import torch

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
a = torch.randn(12, 5, dtype=torch.float64).to(device)
b = torch.randn(12, 2, dtype=torch.float64).to(device)


def show(name, value):
    assert value.device.type == device.type, name
    print(f"{name} {tuple(value.shape)} {value.abs().sum().item():.8f}")


show("lstsq", torch.linalg.lstsq(a, b).solution)
u, s, vh = torch.linalg.svd(a - a.mean(0), full_matrices=False)
show("pca", (a - a.mean(0)) @ vh[:2].T)
print("rebuilt", torch.allclose(u @ torch.diag(s) @ vh, a - a.mean(0)))
gram = a.T @ a + torch.eye(5, dtype=a.dtype, device=device)
show("cholesky", torch.linalg.cholesky(gram))
show("solve", torch.linalg.solve(gram, a.T))
show("inverse", torch.linalg.inv(gram))
show("eigh", torch.linalg.eigh(gram).eigenvalues)
show("qr", torch.linalg.qr(a).R)
show("pinv", torch.linalg.pinv(a))
show("norm", torch.linalg.matrix_norm(a, ord="nuc"))
print(f"det {torch.linalg.det(gram).item():.6f} slogdet {torch.linalg.slogdet(gram).logabsdet.item():.6f} rank {torch.linalg.matrix_rank(a).item()}")
show("matrix_exp", torch.matrix_exp(gram / 20))
show("einsum", torch.einsum("ij,kj,kl->il", a, a, b))
show("bmm", torch.bmm(a.expand(3, 12, 5), a.expand(3, 12, 5).mT))

signal = torch.sin(torch.arange(64, dtype=torch.float64).to(device) * 0.4) + 0.1
spectrum = torch.fft.rfft(signal)
show("rfft", spectrum)
spectrum[10:] = 0
show("low-passed", torch.fft.irfft(spectrum, n=64))
show("fft2", torch.fft.fft2(a.view(3, 4, 5)))
show("stft", torch.stft(signal, 16, window=torch.hann_window(16, dtype=torch.float64, device=device), return_complex=True))
show("conv by fft", torch.fft.ifft(torch.fft.fft(signal) * torch.fft.fft(signal.roll(3))).real)

x = torch.linspace(0, 1, 10, dtype=torch.float64).to(device).unsqueeze(1)
length = torch.tensor(0.3, dtype=torch.float64, device=device, requires_grad=True)
for step in range(4):
    kernel = torch.exp(-torch.cdist(x, x).square() / (2 * length**2)) + 1e-3 * torch.eye(10, dtype=x.dtype, device=device)
    factor = torch.linalg.cholesky(kernel)
    weights = torch.cholesky_solve(torch.sin(6 * x), factor)
    loss = 0.5 * (torch.sin(6 * x) * weights).sum() + factor.diagonal().log().sum()
    (grad,) = torch.autograd.grad(loss, length)
    length = (length - 1e-3 * grad.clamp(-10, 10)).detach().requires_grad_()
    print(f"gp step {step} loss {loss.item():.6f} length {length.item():.6f}")
show("special", torch.special.erfinv(torch.linspace(-0.9, 0.9, 7).to(device)) + torch.special.digamma(torch.arange(1.0, 8.0).to(device)))
show("sorted", torch.sort(signal, descending=True).values.cumsum(0))
print("unique", torch.unique((signal * 3).round(), return_counts=True)[1].tolist(), torch.histc(signal.float(), 4, -1, 1).tolist())
print("bucketize", torch.bucketize(signal[:5], torch.tensor([-0.5, 0.0, 0.5], dtype=torch.float64, device=device)).tolist())
