"""ContinualClassifier: learn, predict, edit, save, load, with scikit-learn's conventions."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gplasc._io.display import display
from gplasc.classifier._build import build_model, load_model
from gplasc.classifier._gate import Label, TaskRecord, check_share
from gplasc.classifier._intake import Intake, as_labels, iterate_inputs
from gplasc.classifier._model import Model, Work
from gplasc.classifier._pipeline import Pipeline
from gplasc.classifier._state import held, read_state, write_state
from gplasc.errors import UserError
from gplasc.learning.checkpoints import MISFIT, misfit
from gplasc.models import EncoderBuilder
from gplasc.settings.types import Scale

_BATCH = 64


class Refused(UserError):
    """An update did not hold its limits; the classifier is as it was before.

    Attributes:
        record: What the update would have brought.
    """

    def __init__(self, record: TaskRecord) -> None:
        super().__init__(f"the update was refused: {'; '.join(record.refused)}")
        self.record = record


class ContinualClassifier:
    """An image classifier that learns new classes whenever `learn` is called.

    By default images become features of a pretrained encoder, features are kept, and a linear head is fitted to all of
    them at each `learn`: earlier images are not needed again.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> def month(*names):
    ...     return np.concatenate([draw.normal(3 * len(name), 1, (12, 4)) for name in names]), np.repeat(names, 12)
    >>> classifier = ContinualClassifier(quiet=True)  # on features of one's own
    >>> classifier.learn(*month("one", "three")).learn(*month("a", "eleven")).classes_
    array(['a', 'eleven', 'one', 'three'], dtype='<U6')

    Args:
        method: "auto": the head that is best in cross-validation; "logistic", "slda" or "ncm": this head; or the
            name of a method that trains, or the path of a Python file with your own.
        plugins: Names of plug-ins for a method that trains, or paths of Python files.
        encoder: "auto": a pretrained one; a name ("resnet18", "small"), ``FILE.py:function``,
            ``package.module:function``, a `torch.nn.Module` that maps images to vectors or feature maps, or a function
            that builds one. With method "auto", resnet18 and small are trained from scratch by co2l with gplasc.
        buffer: How many images (or features, of a frozen encoder) a method that trains remembers.
        seed: Seed of every random choice.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.
        scale: Which presets hold for a method that trains: ``"cpu"``, ``"paper"`` or ``"smoke"``.
        image_size: Width and height of the images; default: the encoder's own, or that of the first image.
        held_out: Share of each class that a method that trains does not learn, for the accuracies.
        keep_features: How many images of each class keep their features; default: all; 0: only sums are kept.
        reject: Share of known images that `is_unknown` may call unknown.
        thumbnails: Whether a small picture of each image is kept for the page.
        quiet: Whether to show nothing.
        **settings: Settings by the names of ``gplasc show``, for example ``encoder_lr=0`` (frozen) or ``margin=0.2``.
    """

    _model: tuple[Model, Pipeline]

    def __init__(
        self,
        method: str = "auto",
        plugins: Sequence[str] = (),
        *,
        encoder: str | nn.Module | EncoderBuilder = "auto",
        buffer: int = 500,
        seed: int = 0,
        device: str | None = None,
        scale: Scale = "cpu",
        image_size: int | None = None,
        held_out: float = 0.2,
        keep_features: int | None = None,
        reject: float | str = 0.05,
        thumbnails: bool = True,
        quiet: bool = False,
        **settings: Any,
    ) -> None:
        if "frozen" in settings:
            raise UserError("frozen is no argument: an encoder is frozen with encoder_lr=0, and by default")
        self.method = method
        self.plugins = plugins
        self.encoder = encoder
        self.buffer = buffer
        self.seed = seed
        self.device = device
        self.scale: Scale = scale
        self.image_size = image_size
        self.held_out = held_out
        self.keep_features = keep_features
        self.reject = reject
        self.thumbnails = thumbnails
        self.quiet = quiet
        self.settings = settings

    # ---- learning ----------------------------------------------------------------------------------------------

    def learn(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        min_accuracy: float | str | None = None,
        max_damage: float | str | None = None,
        skip_corrupt: bool = False,
    ) -> Self:
        """Learn one more month: images of new classes, more images of known ones, or both.

        An image that was learned already is left out. The classifier answers from its old state until all is done.

        Args:
            X: Images (N x H x W x C or N x C x H x W; uint8, or floats from 0 to 1), features (N x D, floats), a
                folder with one folder for each class, an .npz file with x and y, a list of files or images, a
                DataLoader, or an iterable of (image, label).
            y: One label for each image of an array or list, text or whole numbers.
            min_accuracy: Least cross-validated accuracy of these images, for example 0.5 or "50%".
            max_damage: Largest share of earlier images that may change from right to another earlier class.
            skip_corrupt: Whether to leave out files that cannot be decoded; their number is a note.

        Returns:
            The classifier.

        Raises:
            UserError: If something that was given is not allowed; nothing is learned then.
            Refused: If the limits do not hold; the classifier is as it was.
        """
        candidate = self._candidate(Intake(X, y, skip_corrupt=skip_corrupt), (min_accuracy, max_damage))
        record = candidate.tasks[-1] if candidate else None
        if not self.quiet:
            print(record or "nothing is new: every image was learned already", file=sys.stderr)
        if record and record.refused:
            raise Refused(record)
        if candidate:
            self._answer_from(candidate)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:  # noqa: N803
        """The same as `learn`; ``classes`` is not needed, since new classes are found by themselves."""
        return self.learn(X, y)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Forget everything and learn one month."""
        self._answer_from(type(self)(**self.get_params()).learn(X, y).model)
        return self

    def _candidate(
        self, intake: Intake, limits: tuple[Any, Any] = (None, None), work: Work | None = None
    ) -> Model | None:
        """Return what the classifier would be with more images, and leave it as it is; None if no image is new."""
        given, shown, lines = work or Work(), display(self.quiet), {"": -1}
        low, high = (None if limit is None else check_share("a limit", limit) for limit in limits)

        def show(phase: str, done: float) -> None:
            given.on_progress(phase, done)
            shown.phase(f"{phase} {done:.0%}")
            if not sys.stderr.isatty() and lines.get(phase) != (tenth := int(10 * done)):  # in a log
                lines[phase] = tenth
                shown.say(f"{phase} {done:.0%}")

        try:
            model = self._model[0] if "_model" in self.__dict__ else build_model(self, intake)
            candidate = model.learned(intake, replace(given, on_progress=show))
        finally:
            shown.close()
        if candidate:
            candidate.tasks[-1] = candidate.tasks[-1].judged(low, high)
        return candidate

    def _answer_from(self, model: Model) -> None:
        """Answer from another model from now on."""
        self._model = (model, model.pipeline())  # in one step: another thread may be predicting

    # ---- editing -----------------------------------------------------------------------------------------------

    def forget(self, label: Label) -> Self:
        """Remove a class: features, thumbnails and digests of its images, exactly as if it had never been learned.

        Of a method that trains, images and outputs are removed, and what the network learned from them stays.
        """
        self._answer_from(self.model.edited(label, None))
        return self

    def rename(self, old: Label, new: Label) -> Self:
        """Give a class another label."""
        self._answer_from(self.model.edited(old, new, merge=False))
        return self

    def merge(self, one: Label, other: Label) -> Self:
        """Make the second class part of the first, exactly as if they had always been one."""
        self._answer_from(self.model.edited(other, one, merge=True))
        return self

    # ---- prediction --------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most probable label of each image, (N,).

        Args:
            X: Images or features as for `learn`, one image, an image file, a folder of images, or an iterable of images
                or files. Files are read in batches.
        """
        model, _ = fitted = self._fitted  # once: another thread may be learning
        labels: NDArray[Any] = np.array(sorted(model.labels))[_collect(fitted, X)[0].argmax(1)]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the calibrated probability of each class, (N, classes), in the order of ``classes_``."""
        return _collect(self._fitted, X)[0]

    def is_unknown(self, X: Any) -> NDArray[np.bool_]:  # noqa: N803
        """Tell of each image whether it is probably of no known class, (N,)."""
        mask: NDArray[np.bool_] = _collect(self._fitted, X)[1] < 0
        return mask

    def iterate_predictions(self, X: Any) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:  # noqa: N803
        """Yield, batch by batch, probabilities (b, classes) and how far images are above the threshold of unknown.

        Files are decoded only when their batch is due.
        """
        return _predictions(self._fitted, X)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the share of images whose label is predicted, from 0 to 1.

        Args:
            X: Images, a folder with one folder for each class, or an iterable of (image, label), as for `learn`.
            y: One label for each image of an array.
        """
        if y is None:
            items = list(Intake(X).items(self.model.options.shape, {}, self.model.labels))
            X, y = [item.x for item in items], [item.label for item in items]  # noqa: N806
        found, given = self.predict(X).tolist(), as_labels(y)
        if len(found) != len(given):
            raise UserError(f"there are {len(found)} images and {len(given)} labels; give one for each image")
        return sum(map(operator.eq, found, given), start=0.0) / max(len(given), 1)

    # ---- scikit-learn ------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name, settings included."""
        return {**{name: getattr(self, name) for name in _PARAMETERS}, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor; they hold from the next `fit` on."""
        for name, value in params.items():
            if name in _PARAMETERS:
                setattr(self, name, value)
            else:
                self.settings = {**self.settings, name: value}
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted: text or numbers."""
        return np.array(sorted(self.model.labels))

    @property
    def n_features_in_(self) -> int:
        """The number of features, of a classifier that learned features."""
        if len(self.model.options.shape) == 3:
            raise AttributeError("images have no fixed number of features")
        return self.model.options.shape[0]

    @property
    def tasks_(self) -> list[TaskRecord]:
        """What each call of `learn` brought."""
        return list(self.model.tasks)

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=True, three_d_array=True),
            non_deterministic=False,
        )

    def __repr__(self) -> str:
        params = self.get_params().items()
        given = (f"{name}={value!r}" for name, value in params if value != _DEFAULTS.get(name, ...))
        return f"ContinualClassifier({', '.join(given)})"

    # ---- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, keep: int = 3) -> None:
        """Write everything that is needed to predict and to go on learning into a folder.

        Args:
            path: The folder; a state that is there already is replaced.
            keep: How many older states the folder keeps for `gplasc rollback`.
        """
        with held(Path(path)):
            write_state(Path(path), self.model, keep=keep)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: nn.Module | EncoderBuilder | None = None,
        device: str | None = None,
        allow_code: bool = False,
        quiet: bool = False,
    ) -> Self:
        """Read what `save` or ``gplasc learn`` wrote.

        Args:
            path: The folder.
            encoder: The encoder, if it was passed as an object; its weights are replaced.
            device: Where to compute; default: the accelerator if there is one.
            allow_code: Whether Python code that the state carries or names may run: an encoder or a method of the
                user's own. Allow it only if you trust where the state comes from.
            quiet: Whether to show nothing from now on.
        """
        folder = Path(path)
        for _ in range(3):
            state = read_state(folder)
            try:
                new = cls(**state.parameters, device=device, quiet=quiet)
                new._answer_from(load_model(new, folder, state, encoder, allow_code))
                return new
            except FileNotFoundError:  # another process has just written the next state
                continue
            except MISFIT as error:
                problem = f"what {path} holds does not fit its settings ({misfit(error)})"
                raise UserError(f"{problem}; restore the folder from a copy") from error
        raise UserError(f"files of {path} are missing; restore the state folder from a copy")

    # ---- the model ---------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """What was learned; a UserError if nothing was."""
        return self._fitted[0]

    @property
    def pipeline(self) -> Pipeline:
        """The module that maps images (N, C, H, W) to probabilities (N, classes) and how well-known they look (N,)."""
        return self._fitted[1]

    @property
    def _fitted(self) -> tuple[Model, Pipeline]:
        if "_model" not in self.__dict__:
            raise _not_fitted("nothing was learned yet: call learn(X, y) first")
        return self._model


_PARAMETERS = tuple(inspect.signature(ContinualClassifier).parameters)[:-1]  # without **settings
_DEFAULTS = ContinualClassifier().get_params()


def _predictions(
    fitted: tuple[Model, Pipeline], data: Any
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    options = fitted[0].options
    for x in iterate_inputs(data, _BATCH, options.shape):
        with torch.inference_mode():
            probabilities, likeness = fitted[1](x.to(options.device))
        yield probabilities.cpu().numpy(), likeness.cpu().numpy()


def _collect(fitted: tuple[Model, Pipeline], data: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return probabilities (N, classes) and likeness (N,)."""
    none = (np.zeros((0, len(fitted[0].labels)), np.float32), np.zeros(0, np.float32))
    probabilities, likeness = zip(none, *_predictions(fitted, data), strict=True)
    return np.concatenate(probabilities), np.concatenate(likeness)


def _not_fitted(text: str) -> UserError:
    """Return scikit-learn's NotFittedError, where scikit-learn is in use, as a UserError."""
    bases: tuple[type, ...] = (UserError, AttributeError, ValueError)
    if "sklearn" in sys.modules:  # importing it would take longer than loading a classifier
        from sklearn.exceptions import NotFittedError

        bases = (UserError, NotFittedError)
    return type("NotLearned", bases, {})(text)  # type: ignore[no-any-return]
