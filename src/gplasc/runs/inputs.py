"""What a run learns: its stream, of images or of a frozen encoder's features, and its encoder."""

from __future__ import annotations

from pathlib import Path

from gplasc._io.display import Display
from gplasc._io.display import display as open_display
from gplasc.models import Encoder
from gplasc.runs.encoder import configured_encoder, own_encoder
from gplasc.runs.features import FeatureExtractor, extract_features, feature_stream
from gplasc.runs.spec import RunSpec
from gplasc.settings.types import Config
from gplasc.streams import Stream, find_stream, open_stream


def open_learned_stream(
    spec: RunSpec,
    data_dir: str | Path | None,
    *,
    stream: Stream | None = None,
    encoder: Encoder | None = None,
    device: str = "cpu",
    display: Display | None = None,
) -> tuple[Stream, Encoder | None]:
    """Open the stream that a run learns, and the encoder if it is not a built-in one.

    The stream of a frozen encoder is one of features; it comes without encoder.

    Args:
        spec: The settings.
        data_dir: Where data sets are.
        stream: The stream itself where it has no name that can be opened.
        encoder: The encoder if it was passed as an object.
        device: Where features are computed.
        display: Where to show the progress.
    """
    config = spec.config
    encoder = encoder or own_encoder(config)
    size = None if encoder is None else encoder.image_size
    stream = stream or open_configured_stream(spec, data_dir, image_size=size)
    if config.model.encoder_lr > 0 or stream.features:
        return stream, encoder
    encoder = encoder or configured_encoder(config, stream.image_shape[0])
    extractor = _new_extractor(encoder, config, stream, device)
    shown = display or open_display(quiet=True)
    return feature_stream(
        stream, extractor, on_progress=lambda phase, done: shown.phase(f"{phase} {done:.0%}")
    ), None


def write_features(
    spec: RunSpec, out: Path, *, data_dir: str | Path | None, device: str, display: Display
) -> str:
    """Compute the features of a stream with a frozen encoder and write them into a folder.

    Args:
        spec: The settings; stream and encoder are those they name.
        out: The folder; what is there already is not computed again.
        data_dir: Where data sets are.
        device: Where to compute.
        display: Where to show the progress.

    Returns:
        One line about what was written.

    Raises:
        UserError: If the folder holds other features.
    """
    config = spec.config
    encoder = own_encoder(config)
    size = None if encoder is None else encoder.image_size
    stream = open_configured_stream(spec, data_dir, image_size=size)
    encoder = encoder or configured_encoder(config, stream.image_shape[0])
    extractor = _new_extractor(encoder, config, stream, device)
    extract_features(stream, extractor, out, lambda phase, done: display.phase(f"{phase} {done:.0%}"))
    return (
        f"features of {stream.name} in {out}: {len(stream)} tasks, {stream.num_classes} classes, "
        f"{encoder.feature_dim} features; learn them with --stream features:{out}"
    )


def _new_extractor(encoder: Encoder, config: Config, stream: Stream, device: str) -> FeatureExtractor:
    return FeatureExtractor(
        encoder,
        config,
        shape=stream.image_shape,
        mean=stream.mean,
        std=stream.std,
        views=config.model.feature_views,
        device=device,
    )


def open_configured_stream(
    spec: RunSpec, data_dir: str | Path | None, *, image_size: int | None = None
) -> Stream:
    """Open the stream as the settings want it; `image_size` is used where they leave the size open."""
    data = spec.config.data
    if not find_stream(spec.config.stream)[0].size_is_setting:
        image_size = None
    return open_stream(
        spec.config.stream,
        data_dir=data_dir,
        classes_per_task=data.classes_per_task,
        class_order_seed=data.class_order_seed,
        images_per_class=data.images_per_class,
        test_images_per_class=data.test_images_per_class,
        image_size=data.image_size or image_size,
        validation=data.validation,
        skip_corrupt=data.skip_corrupt,
    )
