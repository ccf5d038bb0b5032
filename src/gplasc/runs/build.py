"""From settings to stream, encoder and learner: the one place that builds method, plug-ins and network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gplasc._io.display import Display
from gplasc.errors import UserError
from gplasc.learning import Callback, Expected, Head, ImageFormat, Learner
from gplasc.learning.devices import Hardware
from gplasc.learning.distributed import Processes
from gplasc.models import Encoder, FeatureAdapter, FixedFeatures, LinearClassifier, Network, ProjectionHead
from gplasc.random import Generators
from gplasc.runs.encoder import configured_encoder, image_format
from gplasc.runs.features import FeatureExtractor
from gplasc.runs.spec import RunSpec, find_components
from gplasc.settings.types import Config
from gplasc.streams import Stream, find_stream, open_stream


def build_learner(
    config: Config,
    expected: Stream | Expected,
    *,
    encoder: Encoder | None = None,
    device: str = "cpu",
    processes: Processes | None = None,
    compiled: bool = False,
    announced: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Learner:
    """Build the learner of a run; unless tasks and classes are announced, it prepares for those of the first task."""
    kinds = find_components(config.method, config.plugins).values()
    components: list[Any] = [
        kind(kind.Settings(**options)) for kind, options in zip(kinds, config.options.values(), strict=True)
    ]
    method, *plugins = components
    if isinstance(expected, Stream):
        if encoder is None and not expected.features:
            encoder = configured_encoder(config, expected.image_shape[0])
        expected = _expect(expected, encoder, announced)
    images = expected.images
    if images.features:
        dim, generator = images.shape[-1], Generators(config.seed)["weights.encoder"]
        encoder = FeatureAdapter(dim, generator=generator) if method.trains else FixedFeatures(dim)
    assert encoder is not None
    precision = config.train.precision
    assert precision != "auto", "resolved with the request"
    heads = frozenset().union(*(component.heads for component in components))
    return Learner(
        method,
        plugins,
        _build_network(config, encoder, heads, expected.classes),
        settings=config,
        expected=expected,
        hardware=Hardware(device, precision, processes, compiled=compiled),
        callbacks=callbacks,
    )


def _expect(stream: Stream, encoder: Encoder | None, announced: bool) -> Expected:
    if encoder is None or stream.features:
        images = ImageFormat(stream.image_shape, (), (), features=True)
    else:
        images = image_format(stream.image_shape, stream.mean, stream.std, encoder)
    if announced:
        return Expected(images, stream.num_classes, len(stream))
    return Expected(images, stream.classes_per_task[0])


def _build_network(config: Config, encoder: Encoder, heads: frozenset[Head], classes: int) -> Network:
    """Add heads to an encoder; each draws its weights from a generator of its own."""
    random, model = Generators(config.seed), config.model
    dim, projection, classifier = encoder.feature_dim, None, None
    if "projection" in heads:
        sizes = {"hidden": model.projection_hidden, "out": model.projection_dim}
        projection = ProjectionHead(dim, **sizes, generator=random["weights.projection"])
    if "classifier" in heads:
        generator = random["weights.classifier"]
        classifier = LinearClassifier(dim, classes, generator=generator, initialization=model.initialization)
    return Network(encoder, projection, classifier)


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
        names = ("classes_per_task", "class_order", "class_order_seed", "images_per_class", "validation")
        options = {name: getattr(data, name) for name in (*names, "test_images_per_class", "skip_corrupt")}
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
