"""The callbacks of trainers: what they count, and real trainings where a framework is installed."""

import pytest


def counted(program, text, **options):
    result = program.run_source(text, simulate=1, deadline=300, **options)
    assert result.code == 0, result.describe()
    return result.stdout


def test_the_ledger_of_each_epoch(program):
    out = counted(
        program,
        """
import torch
from locus.trainers.epochs import Epochs

epochs = Epochs()
epochs.start()
assert epochs.end() == {}
for epoch in range(2):
    epochs.begin()
    x = torch.ones(256, device="cuda") + torch.ones(256).cuda()
    for _ in range(epoch):
        x.sum().item()
    print({name.removeprefix("locus/"): value for name, value in epochs.end().items()})
""",
    )
    first, second = out.splitlines()
    assert "'transfers': 1.0, 'transfer_bytes': 1024.0, 'synchronizations': 0.0, 'peak_bytes_cuda_0': " in first
    assert "'synchronizations': 1.0" in second and float(second.rpartition(" ")[2].rstrip("}")) >= 3072


@pytest.mark.slow
def test_lightning(program):
    pytest.importorskip("lightning")
    out = counted(
        program,
        """
import lightning.pytorch as pl, torch
from locus.trainers.lightning import LocusCallback

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return self.fc(batch[0]).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.TensorDataset(torch.randn(16, 4))
trainer = pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, callbacks=[LocusCallback()], logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=8))
print(sorted(name for name in trainer.callback_metrics if name.startswith("locus/")))
""",
    )
    assert "'locus/transfer_bytes', 'locus/transfers'" in out


@pytest.mark.slow
def test_an_error_in_lightning_is_told_as_it_was_when_it_was_raised(program):
    pytest.importorskip("lightning")
    result = program.run_source(
        """
import lightning.pytorch as pl, torch
from locus.trainers.lightning import LocusCallback

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.scale = torch.ones(8, 1)
    def training_step(self, batch, _):
        return (self.fc(batch[0]) * self.scale).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.TensorDataset(torch.randn(16, 4))
trainer = pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, callbacks=[LocusCallback(history=True)], logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
try:
    trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=8))
except RuntimeError as error:
    print(" ".join(str(error.finding).split()))
""",
        simulate=1,
        deadline=300,
    )
    said = result.stdout
    assert 'why: `Net.scale` is a plain attribute of `Net` (Net); Net.to("cuda:0") at' in said, result.describe()
    assert 'self.register_buffer("scale", torch.ones(8, 1), persistent=False)' in said


@pytest.mark.slow
def test_hugging_face(program, tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    out = counted(
        program,
        """
import torch
from transformers import Trainer, TrainingArguments
from locus.trainers.huggingface import LocusCallback

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {"loss": (self.fc(x) - labels).square().mean()}

data = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(8)]
arguments = TrainingArguments("out", num_train_epochs=1, report_to=[], save_strategy="no", disable_tqdm=True)
trainer = Trainer(Net(), arguments, train_dataset=data)
trainer.add_callback(LocusCallback(trainer))
trainer.train()
print([entry["locus/transfers"] > 0 for entry in trainer.state.log_history if "locus/transfers" in entry])
""",
        cwd=tmp_path,
    )
    assert "[True]" in out
