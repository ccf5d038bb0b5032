"""Features of a frozen encoder: computed once per image and augmented view, and kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gplasc._io.files import write_atomic
from gplasc._io.lock import locked
from gplasc._io.reading import read_text
from gplasc.errors import UserError
from gplasc.learning import ImageFormat
from gplasc.learning.checkpoints import digest
from gplasc.learning.context import new_augmentations
from gplasc.models import Encoder
from gplasc.settings.types import Config
from gplasc.streams import Samples, Stream, fingerprint
from gplasc.streams.locate import cache_folder
from gplasc.streams.sources.features import INDEX, part_name, read_index, read_part
from gplasc.streams.stream import TaskPlan

_ROWS = 64
_FORMAT = 1


class FeatureExtractor:
    """Maps images to features with an encoder, which is frozen; training images also in some augmented views."""

    def __init__(
        self, encoder: Encoder, config: Config, images: ImageFormat, *, views: int, device: str = "cpu"
    ) -> None:
        encoder.freeze()
        self.encoder = encoder.to(device)
        self._views = views
        self._device = device
        self._augmentations = new_augmentations(config, images)
        data = config.data.model_dump_json(include={"crop_scale", "flip", "jitter"})
        facts = (_FORMAT, repr(images), views, data, digest(encoder.state_dict()))
        self.identity = hashlib.sha256(repr(facts).encode()).hexdigest()
        """Digest of everything but the images that decides the features."""

    @property
    def feature_shape(self) -> tuple[int, int, int]:
        """The shape of the features of a training image: (1 + views, 1, D)."""
        return 1 + self._views, 1, self.encoder.feature_dim

    def plain(self, x: Tensor) -> Tensor:
        """Map uint8 images (N, C, H, W) to features (N, 1, 1, D)."""
        return self._forward(x, 0)

    def with_views(self, x: Tensor, on_progress: Callable[[int], None] = lambda rows: None) -> Tensor:
        """Map uint8 images (N, C, H, W) to features (N, 1 + views, 1, D): the plain image first.

        The views follow from the images alone, so computing them again gives the same features.
        """
        pieces = [torch.zeros(0, *self.feature_shape)]
        for rows in x.split(_ROWS):
            pieces.append(self._forward(rows, self._views))
            on_progress(len(rows))
        return torch.cat(pieces)

    def _forward(self, x: Tensor, views: int) -> Tensor:
        seed = hashlib.sha256(x.contiguous().numpy().data).digest() if views else b""
        generator = torch.Generator().manual_seed(int.from_bytes(seed[:8], "big") >> 1)
        rows = x.to(self._device)
        kinds = [self._augmentations["plain"], *[self._augmentations["contrastive"]] * views]
        with torch.inference_mode():
            features = [self.encoder(augment(rows, generator)).float().cpu() for augment in kinds]
        return torch.stack(features, dim=1).unsqueeze(2).clone()

    def stream(
        self,
        stream: Stream,
        folder: Path | None = None,
        on_progress: Callable[[float], None] = lambda done: None,
    ) -> Stream:
        """Return the same tasks with features in place of images, written into a folder; default: one in the cache.

        What the folder holds already is not computed again; features of other images, of another encoder or stream are
        refused.
        """
        data = fingerprint(stream)
        if folder is None:
            key = hashlib.sha256(f"{data}{self.identity}".encode()).hexdigest()
            folder = cache_folder() / "features" / key[:24]
        index = {
            "format": _FORMAT,
            "stream": stream.name,
            "class_names": list(stream.class_names),
            "classes_per_task": list(stream.classes_per_task),
            "identity": self.identity,
            "data": data,
        }
        with locked(folder / "lock"):
            if not (folder / INDEX).exists():
                self._write(stream, folder, index, on_progress)
        if {**index, **read_index(folder)} != index:  # the index of an older version does not name the data
            raise UserError(
                f"{folder} holds features of other images or splits, or of another encoder or stream; "
                "choose another folder"
            )
        plans = []
        for number in range(len(stream)):
            first = sum(stream.classes_per_task[:number])
            paths = [folder / part_name(number, split) for split in ("train", "test", "validation")]
            train, test, validation = (partial(_read_samples, path, first) for path in paths)
            names, held_out = stream[number : number + 1].class_names, paths[-1].exists()
            plans.append(TaskPlan(names, train, test, validation if held_out else None))
        shape, notes = self.feature_shape, stream.notes
        return Stream(stream.name, plans, image_shape=shape, mean=(), std=(), notes=notes, features=True)

    def _write(
        self, stream: Stream, folder: Path, index: dict[str, Any], on_progress: Callable[[float], None]
    ) -> None:
        """Write one file for each split of each task that is not there yet, and the index."""
        from safetensors.torch import save

        text, unfinished = json.dumps(index, indent=1) + "\n", folder / "unfinished.json"
        try:
            kept = read_text(unfinished)
        except UserError:  # none, or a damaged one
            kept = ""
        if kept != text:  # what a run that was killed left belongs to other features
            for path in folder.glob("task-*.safetensors"):
                path.unlink()
            write_atomic(unfinished, text)
        total = sum(len(task.train) for task in stream)
        done = 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            on_progress(min(done / max(total, 1), 1.0))

        for task in stream:
            parts = {"train": task.train, "test": task.test, "validation": task.validation}
            for split, samples in parts.items():
                path, training = folder / part_name(task.index, split), split == "train"
                if samples is not None and path.exists():
                    advance(len(samples) * training)
                elif samples is not None:
                    compute = partial(self.with_views, on_progress=advance) if training else self.plain
                    pieces = torch.arange(len(samples)).split(_ROWS)  # of an empty split one that is empty
                    x = torch.cat([compute(samples.take(rows).x) for rows in pieces])
                    write_atomic(path, save({"x": x, "y": samples.y.contiguous()}))
        unfinished.replace(folder / INDEX)


def _read_samples(path: Path, first: int) -> Samples:
    """Map one split of one task; its labels begin at `first` in the file, and at 0 in the result."""
    x, y = read_part(path)
    return Samples(x, y - first)
