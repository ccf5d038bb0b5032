"""Two tasks with Lightning's own trainer: train, save, reload, and resume in the middle of a task."""

import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gplasc import GPLASC
from gplasc.loop import GPLASCLoop

pl = pytest.importorskip(
    "pytorch_lightning", reason="Lightning is not installed: pip install 'gplasc[lightning]'"
)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice about loaders, loggers and its own dependencies
        yield


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
        self.head = nn.Linear(8, 4)

    def training_step(self, batch, index):
        x, y = batch
        features = self.encoder(x)
        terms = self.gplasc.terms(x, y, features=features)
        self.last = {name: float(value.detach()) for name, value in terms.items()}
        return nn.functional.cross_entropy(self.head(features), y) + sum(terms.values())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(task: int) -> DataLoader:
    draw = torch.Generator().manual_seed(task)
    y = torch.arange(16) % 2 + 2 * task
    return DataLoader(TensorDataset(torch.randn(16, 6, generator=draw) + y[:, None], y), batch_size=8)


def fresh(epochs: int, folder):
    from gplasc.integrations.lightning import GPLASCCallback

    model = Model()
    callback = GPLASCCallback(GPLASCLoop(GPLASC(num_tasks=2, feature_dim=8), model.encoder, memory=6))
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[callback],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    return model, callback, trainer


def test_two_tasks_saved_and_reloaded(tmp_path):
    model, callback, trainer = fresh(2, tmp_path)
    trainer.fit(model, loader(0))
    trainer.save_checkpoint(tmp_path / "first.ckpt")
    weights = torch.load(tmp_path / "first.ckpt", weights_only=True)["state_dict"]
    assert {name.partition(".")[0] for name in weights} == {"encoder", "head"}  # and no previous encoder
    plain = Model()
    plain.load_state_dict(weights)  # loads into a model without GPLASC

    again, its_callback, its_trainer = fresh(4, tmp_path)  # Lightning counts the epochs of both tasks
    its_trainer.fit(again, loader(1), ckpt_path=tmp_path / "first.ckpt")
    assert its_callback.loop.tasks_done == 2
    assert again.last["distill"] > 0
    assert all(
        torch.equal(value, weights[f"encoder.{name}"].cpu()) is False
        for name, value in again.encoder.state_dict().items()
    )
    trainer.fit_loop.max_epochs = 4  # the uninterrupted twin
    trainer.fit(model, loader(1))
    first, second = callback.state_dict(), its_callback.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_checkpoint_inside_a_task_continues_the_task(tmp_path):
    class Save(pl.Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / f"{trainer.current_epoch}.ckpt")

    model, _, trainer = fresh(2, tmp_path)
    trainer.callbacks.append(Save())
    trainer.fit(model, loader(0))
    again, its_callback, its_trainer = fresh(2, tmp_path)
    its_trainer.fit(again, loader(0), ckpt_path=tmp_path / "0.ckpt")
    assert its_callback.loop.tasks_done == 1
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
