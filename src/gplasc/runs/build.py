"""From settings to a learner: the one place that builds method, plug-ins and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from gplasc.learning import Callback, Component, Head, ImageFormat, Learner, Method, Plugin
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
    if stream.features:
        images = ImageFormat(stream.image_shape, (), (), features=True)
    else:
        encoder = encoder or configured_encoder(config, stream.image_shape[0])
        images = image_format(stream.image_shape, stream.mean, stream.std, encoder)
    return assemble(
        config,
        images,
        encoder=encoder,
        device=device,
        expected_tasks=len(stream) if announced else None,
        num_classes=stream.num_classes if announced else stream.classes_per_task[0],
        processes=processes,
        compiled=compiled,
        callbacks=callbacks,
    )


def assemble(
    config: Config,
    images: ImageFormat,
    *,
    encoder: Encoder | None,
    device: str,
    expected_tasks: int | None,
    num_classes: int,
    processes: Processes | None = None,
    compiled: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Learner:
    """Build a learner of images, or of features, in a given format.

    Args:
        config: The complete settings.
        images: The format of what is learned.
        encoder: The encoder of images; None if features are learned.
        device: Where to compute.
        expected_tasks: The number of tasks, if it is known.
        num_classes: For how many classes the heads have outputs at first.
        processes: The processes that compute the run together; default: this one alone.
        compiled: Whether the encoder is compiled.
        callbacks: See `gplasc.Callback`.
    """
    method: Method[Any] = _component(find_method(config.method), config, 0)
    plugins: list[Plugin[Any]] = [
        _component(find_plugin(name), config, 1 + number) for number, name in enumerate(config.plugins)
    ]
    if images.features:
        dim, generator = images.shape[-1], Generators(config.seed)["weights.encoder"]
        encoder = FeatureAdapter(dim, generator=generator) if method.trains else FixedFeatures(dim)
    assert encoder is not None
    heads = frozenset().union(*(component.heads for component in (method, *plugins)))
    return Learner(
        method,
        plugins,
        _build_network(config, encoder, heads, num_classes),
        settings=config,
        images=images,
        device=device,
        expected_tasks=expected_tasks,
        num_classes=num_classes,
        callbacks=callbacks,
        processes=processes,
        compiled=compiled,
    )


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
