"""What a run learns: its stream, of images or of a frozen encoder's features, and its encoder."""

from __future__ import annotations

from pathlib import Path

from gplasc._io.display import Display
from gplasc.errors import UserError
from gplasc.models import Encoder
from gplasc.runs.encoder import configured_encoder, image_format
from gplasc.runs.features import FeatureExtractor
from gplasc.runs.spec import RunSpec
from gplasc.streams import Stream, find_stream, open_stream


def open_inputs(
    spec: RunSpec,
    data_dir: str | Path | None,
    *,
    stream: Stream | None = None,
    encoder: Encoder | None = None,
    device: str = "cpu",
    display: Display | None = None,
    folder: Path | None = None,
) -> tuple[Stream, Encoder | None]:
    """Open the stream that a run learns and its encoder, unless they are passed; a stream of features has none.

    The features of a frozen encoder are computed and kept in the folder; default: the user's cache folder.
    """
    config, data = spec.config, spec.config.data
    if encoder is None and ":" in config.model.encoder:  # one of the user's own may have a size of images
        encoder = configured_encoder(config)
    if stream is None:
        own_size = encoder.image_size if encoder and find_stream(config.stream)[0].size_is_setting else None
        names = ("classes_per_task", "class_order_seed", "images_per_class", "test_images_per_class")
        options = {name: getattr(data, name) for name in (*names, "validation", "skip_corrupt")}
        size = data.image_size or own_size
        stream = open_stream(config.stream, data_dir=data_dir, image_size=size, **options)
    if stream.features:
        return stream, None
    encoder = encoder or configured_encoder(config, stream.image_shape[0])
    if config.model.encoder_lr > 0:
        return stream, encoder
    images = image_format(stream.image_shape, stream.mean, stream.std, encoder)
    extractor = FeatureExtractor(encoder, config, images, views=config.model.feature_views, device=device)
    shown = display or Display()
    return extractor.stream(stream, folder, lambda done: shown.phase(f"features {done:.0%}")), None


def write_features(
    spec: RunSpec, out: Path, *, data_dir: str | Path | None, device: str, display: Display
) -> str:
    """Write the features of a stream of images, by a frozen encoder, into a folder; return a line about them."""
    if spec.config.stream.startswith("features:"):
        raise UserError(f"{spec.config.stream} holds features already; give a stream of images")
    stream, _ = open_inputs(spec, data_dir, device=device, display=display, folder=out)
    return (
        f"features of {stream.name} in {out}: {len(stream)} tasks, {stream.num_classes} classes, "
        f"{stream.image_shape[-1]} features; learn them with --stream features:{out}"
    )
