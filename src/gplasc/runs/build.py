"""From settings to a learner: the one place that builds method, plug-ins and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gplasc.learning import Callback, Expected, Head, ImageFormat, Learner
from gplasc.learning.devices import Hardware
from gplasc.learning.distributed import Processes
from gplasc.models import Encoder, FeatureAdapter, FixedFeatures, LinearClassifier, Network, ProjectionHead
from gplasc.random import Generators
from gplasc.runs.encoder import configured_encoder, image_format
from gplasc.runs.spec import find_components
from gplasc.settings.types import Config
from gplasc.streams import Stream


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


def _build_network(config: Config, encoder: Encoder, heads: frozenset[Head], num_classes: int) -> Network:
    """Add heads to an encoder; each draws its weights from a generator of its own."""
    random, model = Generators(config.seed), config.model
    dim, projection, classifier = encoder.feature_dim, None, None
    if "projection" in heads:
        sizes = {"hidden": model.projection_hidden, "out": model.projection_dim}
        projection = ProjectionHead(dim, **sizes, generator=random["weights.projection"])
    if "classifier" in heads:
        generator = random["weights.classifier"]
        classifier = LinearClassifier(
            dim, num_classes, generator=generator, initialization=model.initialization
        )
    return Network(encoder, projection, classifier)
