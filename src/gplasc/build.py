"""From settings to a learner: the one place that builds method, plug-ins and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from gplasc.config import Config
from gplasc.learning import Callback, Component, Head, ImageFormat, Learner, Method, Plugin
from gplasc.learning.distributed import Processes
from gplasc.methods import find_method
from gplasc.models import Encoder, LinearClassifier, Network, ProjectionHead, build_encoder
from gplasc.plugins import find_plugin
from gplasc.random import Generators
from gplasc.streams import Stream


def build_learner(
    config: Config,
    stream: Stream,
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
        stream: Where image format, number of tasks and number of classes come from.
        encoder: The encoder; default: the one that the settings name.
        device: Where to compute.
        processes: The processes that compute the run together; default: this one alone.
        compiled: Whether the encoder is compiled.
        announced: Whether the learner knows the number of tasks and classes beforehand. If not, it prepares for the
            classes of the first task, and heads grow when others arrive.
        callbacks: See `gplasc.Callback`.
    """
    method: Method[Any] = _component(find_method(config.method), config, 0)
    plugins: list[Plugin[Any]] = [
        _component(find_plugin(name), config, 1 + number) for number, name in enumerate(config.plugins)
    ]
    images = ImageFormat(stream.image_shape, stream.mean, stream.std)
    num_classes = stream.num_classes if announced else stream.classes_per_task[0]
    heads = frozenset().union(*(component.heads for component in (method, *plugins)))
    return Learner(
        method,
        plugins,
        build_network(config, images, heads, num_classes, encoder=encoder),
        settings=config,
        images=images,
        device=device,
        expected_tasks=len(stream) if announced else None,
        num_classes=num_classes,
        callbacks=callbacks,
        processes=processes,
        compiled=compiled,
    )


def build_network(
    config: Config,
    images: ImageFormat,
    heads: frozenset[Head],
    num_classes: int,
    *,
    encoder: Encoder | None = None,
) -> Network:
    """Build the encoder and the heads; each draws its weights from a generator of its own."""
    random, model = Generators(config.seed), config.model
    if encoder is None:
        encoder = build_encoder(
            model.encoder,
            in_channels=images.shape[0],
            width=model.width,
            features=model.features,
            generator=random["weights.encoder"],
        )
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
