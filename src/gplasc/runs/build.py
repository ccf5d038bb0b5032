"""From settings to a learner: the one place that builds method, plug-ins and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from gplasc.learning import Callback, Component, Expected, Head, ImageFormat, Learner, Method, Plugin
from gplasc.learning.devices import Hardware
from gplasc.learning.distributed import Processes
from gplasc.methods import find_method
from gplasc.models import (
    Encoder,
    FeatureAdapter,
    FixedFeatures,
    LinearClassifier,
    Network,
    ProjectionHead,
)
from gplasc.plugins import find_plugin
from gplasc.random import Generators
from gplasc.runs.encoder import configured_encoder, image_format
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
    """Build the learner of a run.

    Args:
        config: The complete settings.
        expected: What will be learned: images or features, how many classes, how many tasks.
        encoder: The encoder of images; default: the one that the settings name.
        device: Where to compute.
        processes: The processes that compute the run together; default: this one alone.
        compiled: Whether the encoder is compiled.
        announced: Whether the learner knows the tasks and classes of the stream beforehand. If not, it prepares for the
            classes of the first task.
        callbacks: See `gplasc.Callback`.
    """
    method: Method[Any] = _component(find_method(config.method), config, 0)
    plugins: list[Plugin[Any]] = [
        _component(find_plugin(name), config, number) for number, name in enumerate(config.plugins, 1)
    ]
    if isinstance(expected, Stream):
        if encoder is None and not expected.features:
            encoder = configured_encoder(config, expected.image_shape[0])
        expected = _expect(expected, encoder, announced)
    images = expected.images
    if images.features:
        dim, generator = images.shape[-1], Generators(config.seed)["weights.encoder"]
        encoder = FeatureAdapter(dim, generator=generator) if method.trains else FixedFeatures(dim)
    assert encoder is not None
    heads = frozenset().union(*(component.heads for component in (method, *plugins)))
    return Learner(
        method,
        plugins,
        _build_network(config, encoder, heads, expected.classes),
        settings=config,
        expected=expected,
        hardware=Hardware(device, config.train.precision, processes, compiled=compiled),
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
    projection: nn.Module | None = None
    classifier: LinearClassifier | None = None
    if "projection" in heads:
        projection = ProjectionHead(
            encoder.feature_dim,
            hidden=model.projection_hidden,
            out=model.projection_dim,
            generator=random["weights.projection"],
        )
    if "classifier" in heads:
        generator = random["weights.classifier"]
        classifier = LinearClassifier(encoder.feature_dim, num_classes, generator=generator)
    return Network(encoder, projection, classifier)


def _component(kind: type[Component[Any]], config: Config, number: int) -> Any:
    """Build the method (number 0) or a plug-in; the options stand in the same order."""
    return kind(kind.Settings(**list(config.options.values())[number]))
