"""For Lightning's Trainer:

trainer = Trainer(callbacks=[LocusCallback()], …)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning.pytorch import Callback

from locus.trainers.epochs import Epochs

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer


class LocusCallback(Callback):  # type: ignore[misc]  # lightning is not looked into
    """Explains device errors, and logs transfers, synchronizations and peak memory of each training epoch.

    Args:
        history: also record where tensors come from, so that an error names the lines. Costs a little on each operator.
    """

    def __init__(self, history: bool = False):
        self._epochs = Epochs(history)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Before anything runs, and before the trainer moves the model."""
        self._epochs.start()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before an epoch."""
        self._epochs.begin()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After an epoch."""
        if found := self._epochs.end():
            pl_module.log_dict(found)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """The epoch was broken off."""
        self._epochs.fail(exception)
