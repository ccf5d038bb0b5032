"""Features of a frozen encoder: computed once per image and augmented view, and kept on disk."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from gplasc._io.files import write_atomic
from gplasc._io.lock import locked
from gplasc.errors import UserError
from gplasc.learning.context import new_augmentations
from gplasc.learning.digest import digest
from gplasc.models import Encoder
from gplasc.runs.encoder import image_format
from gplasc.settings.types import Config
from gplasc.streams import Samples, Stream, fingerprint
from gplasc.streams.locate import cache_folder
from gplasc.streams.sources.features import INDEX, part_name, read_index, read_part
from gplasc.streams.stream import TaskPlan

_ROWS = 64
_FORMAT = 1


class FeatureExtractor:
    """Maps images to features with a frozen encoder.

    Args:
        encoder: The encoder; it is frozen.
        config: The settings of the augmentation.
        shape: (C, H, W) of the images.
        mean: Of each channel of images scaled to 0..1, if the encoder does not normalize itself.
        std: Of each channel of images scaled to 0..1, likewise.
        views: The number of augmented views of each training image.
        device: Where to compute.
    """

    def __init__(
        self,
        encoder: Encoder,
        config: Config,
        *,
        shape: tuple[int, int, int],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        views: int,
        device: str = "cpu",
    ) -> None:
        encoder.freeze()
        self.encoder = encoder.to(device)
        self._views = views
        self._device = device
        self._format = image_format(shape, mean, std, encoder)
        self._augmentations = new_augmentations(config, self._format)
        data = config.data.model_dump_json(include={"crop_scale", "flip", "jitter"})
        facts = (_FORMAT, repr(self._format), self._views, data, digest(encoder.state_dict()))
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
        found = [x.new_zeros((0, *self.feature_shape), dtype=torch.float32)]
        for part in x.split(_ROWS):
            found.append(self._forward(part, self._views))
            on_progress(len(part))
        return torch.cat(found)

    def _forward(self, x: Tensor, views: int) -> Tensor:
        seed = hashlib.sha256(x.contiguous().numpy().data).digest() if views else b""
        generator = torch.Generator().manual_seed(int.from_bytes(seed[:8], "big") >> 1)
        rows = x.to(self._device)
        found = []
        with torch.inference_mode():
            for view in range(1 + views):
                kind = self._augmentations["contrastive" if view else "plain"]
                found.append(self.encoder(kind(rows, generator)).float().cpu())
        return torch.stack(found, dim=1).unsqueeze(2).clone()


def extract_features(
    stream: Stream,
    extractor: FeatureExtractor,
    folder: Path,
    on_progress: Callable[[str, float], None] = lambda phase, done: None,
) -> None:
    """Write the features of a stream into a folder; what is there already is not computed again.

    Args:
        stream: The stream of images.
        extractor: What computes the features.
        folder: Where one file for each split of each task, and an index, are written.
        on_progress: Called with the name of the phase and the share that is done.
    """
    from safetensors.torch import save

    total = sum(len(task.train) for task in stream)
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress("features", min(done / max(total, 1), 1.0))

    with locked(folder / "lock"):
        if (folder / INDEX).exists():
            check_identity(folder, extractor.identity, stream.name)
            return
        splits: dict[str, list[int]] = {}
        for task in stream:
            parts = {"train": task.train, "test": task.test, "validation": task.validation}
            for split, samples in parts.items():
                if samples is None:
                    continue
                splits.setdefault(split, []).append(len(samples))
                path = folder / part_name(task.index, split)
                if not path.exists():
                    x = _features_of(samples, extractor, split == "train", advance)
                    write_atomic(path, save({"x": x, "y": samples.y.contiguous()}))
                elif split == "train":
                    advance(len(samples))
        index = {
            "format": _FORMAT,
            "stream": stream.name,
            "class_names": list(stream.class_names),
            "classes_per_task": list(stream.classes_per_task),
            "shape": list(extractor.feature_shape),
            "identity": extractor.identity,
            "splits": splits,
        }
        write_atomic(folder / INDEX, json.dumps(index, indent=1) + "\n")


def check_identity(folder: Path, identity: str, stream: str) -> None:
    """Raise an error if a folder holds features of another encoder or stream.

    Raises:
        UserError: If it does.
    """
    index = read_index(folder)
    if (index["identity"], index["stream"]) != (identity, stream):
        raise UserError(f"{folder} holds features of another encoder or stream; choose another folder")


def feature_stream(
    stream: Stream,
    extractor: FeatureExtractor,
    folder: Path | None = None,
    on_progress: Callable[[str, float], None] = lambda phase, done: None,
) -> Stream:
    """Return the same tasks with features in place of images.

    Args:
        stream: The stream of images.
        extractor: What computes the features.
        folder: Where they are kept; default: the user's cache folder, under a digest of images and encoder.
        on_progress: Called with the name of the phase and the share that is done.
    """
    if folder is None:
        key = hashlib.sha256(f"{fingerprint(stream)}{extractor.identity}".encode()).hexdigest()
        folder = cache_folder() / "features" / key[:24]
    extract_features(stream, extractor, folder, on_progress)
    plans = []
    for number, names in enumerate(_names_of_tasks(stream)):
        splits: dict[str, Callable[[], Samples]] = {}
        for split in ("train", "test", "validation"):
            path = folder / part_name(number, split)
            if path.exists():
                splits[split] = partial(_read_samples, path, sum(stream.classes_per_task[:number]))
        plans.append(TaskPlan(names, splits["train"], splits["test"], splits.get("validation")))
    return Stream(
        stream.name,
        plans,
        image_shape=extractor.feature_shape,
        mean=(),
        std=(),
        notes=stream.notes,
        features=True,
    )


def _read_samples(path: Path, first: int) -> Samples:
    """Map one split of one task; its labels begin at `first` in the file, and at 0 in the result."""
    x, y = read_part(path)
    return Samples(x, y - first)


def _names_of_tasks(stream: Stream) -> list[tuple[str, ...]]:
    ends = torch.tensor([0, *stream.classes_per_task]).cumsum(0).tolist()
    return [stream.class_names[start:end] for start, end in itertools.pairwise(ends)]


def _features_of(
    samples: Samples, extractor: FeatureExtractor, views: bool, advance: Callable[[int], None]
) -> Tensor:
    found = []
    for rows in torch.arange(len(samples)).split(_ROWS):
        x = samples.take(rows).x
        found.append(extractor.with_views(x) if views else extractor.plain(x))
        if views:
            advance(len(rows))
    empty = torch.zeros(0, extractor.feature_shape[0] if views else 1, *extractor.feature_shape[1:])
    return torch.cat([empty, *found])
