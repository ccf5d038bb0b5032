"""ContinualClassifier: learn, predict, save, load, with scikit-learn's conventions."""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gplasc._io.display import display
from gplasc.classifier.intake import Label, LabeledImages, as_labels, fit, iterate_images, read_labeled
from gplasc.classifier.model import ClassifierModel, TaskRecord
from gplasc.classifier.pipeline import Pipeline
from gplasc.classifier.state import SavedState, held, read_state, write_state
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner
from gplasc.learning.callbacks import FiniteCheck
from gplasc.learning.checkpoints import MISFIT, misfit
from gplasc.learning.devices import check_device
from gplasc.methods import find_method
from gplasc.models import EncoderBuilder
from gplasc.runs.encoder import EncoderChoice, choose_encoder
from gplasc.runs.spec import RunRequest, RunSpec
from gplasc.settings.types import OBJECT, Config, Scale
from gplasc.streams.decode import read_image

PRESETS = "classifier"
"""The name under which presets know a classifier, in place of a stream's."""
_FOLDER_SIZE = 64
_BATCH = 64


class ContinualClassifier:
    """An image classifier that learns new classes whenever `learn` is called.

    >>> import numpy as np
    >>> draw = np.random.default_rng(0)
    >>> def month(*names):
    ...     x = np.concatenate([draw.integers(40 * i, 40 * i + 60, (12, 8, 8, 1)) for i in range(len(names))])
    ...     return x.astype(np.uint8), np.repeat(names, 12)
    >>> classifier = ContinualClassifier("ncm", (), encoder="small", quiet=True)
    >>> classifier.learn(*month("dark", "gray")).learn(month("a", "b", "bright")[0][24:], ["bright"] * 12).classes_
    array(['dark', 'gray', 'bright'], dtype='<U6')

    The number of tasks need not be known. Time, memory and disk of a task depend on its images and on the buffer, not
    on the tasks before it.

    Args:
        method: Name of a method, or the path of a Python file with your own.
        plugins: Names of plug-ins, or paths of Python files.
        encoder: A name ("resnet18", "small"), ``FILE.py:function``, ``package.module:function``, a `torch.nn.Module`
            that maps images to vectors or feature maps, or a function that builds one. A module is copied.
        buffer: How many images (or features, of a frozen encoder) are remembered.
        seed: Seed of every random choice.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``; default: the accelerator if there is one.
        scale: Which presets hold: ``"cpu"``, ``"paper"`` or ``"smoke"``.
        image_size: Width and height that images are resized to; default: the encoder's own, or that of the first array,
            or 64 for folders.
        held_out: Share of each class that is not learned but used for the accuracies that `learn` reports. At most
            ``buffer`` of these images are kept.
        quiet: Whether to show nothing.
        **settings: Settings by the names of ``gplasc show``, for example ``encoder_lr=0`` (frozen) or ``margin=0.2``.
    """

    classes_: NDArray[Any]
    """The labels seen so far, in the order in which they were learned: text or numbers."""
    tasks_: list[TaskRecord]
    """What each call of `learn` brought."""
    _model: ClassifierModel
    _pipeline: Pipeline
    _choice: tuple[object, EncoderChoice]

    def __init__(
        self,
        method: str = "co2l",
        plugins: Sequence[str] = ("gplasc",),
        *,
        encoder: str | nn.Module | EncoderBuilder = "resnet18",
        buffer: int = 500,
        seed: int = 0,
        device: str | None = None,
        scale: Scale = "cpu",
        image_size: int | None = None,
        held_out: float = 0.2,
        quiet: bool = False,
        **settings: Any,
    ) -> None:
        self.method = method
        self.plugins = plugins
        self.encoder = encoder
        self.buffer = buffer
        self.seed = seed
        self.device = device
        self.scale: Scale = scale
        self.image_size = image_size
        self.held_out = held_out
        self.quiet = quiet
        self.settings = settings

    # ---- learning ----------------------------------------------------------------------------------------------

    def learn(self, X: Any, y: Any = None, *, skip_corrupt: bool = False) -> Self:  # noqa: N803
        """Learn one more task: images of new classes, more images of known ones, or both.

        Args:
            X: Images (uint8, N x H x W x C or N x C x H x W, numpy or torch), a folder with one folder for each class,
                or an iterable of (image, label).
            y: One label for each image of an array, text or whole numbers.
            skip_corrupt: Whether to leave out files of a folder that cannot be decoded; their number is a note of the
                task.

        Returns:
            The classifier.

        Raises:
            UserError: If something that was given is not allowed; nothing is learned then.
        """
        self._report(self.learn_images(self.read(X, y, skip_corrupt=skip_corrupt)))
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:  # noqa: N803
        """The same as `learn`; ``classes`` is not needed, since new classes are found by themselves."""
        return self.learn(X, y)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Forget everything and learn one task."""
        data = read_labeled(X, y, channels=None, size=self._wanted_size(X))
        for name in ("_model", "_pipeline", "classes_", "tasks_"):
            self.__dict__.pop(name, None)
        self._report(self.learn_images(data))
        return self

    def read(self, X: Any, y: Any = None, *, skip_corrupt: bool = False) -> LabeledImages:  # noqa: N803
        """Read images and labels in the format of this classifier, without learning them; see `learn`."""
        model = self._model_or_none
        if model is None:
            size = self._wanted_size(X)
            return read_labeled(X, y, channels=None, size=size, skip_corrupt=skip_corrupt)
        channels, _, size = model.shape
        data = read_labeled(X, y, channels=channels, size=size, skip_corrupt=skip_corrupt)
        if type(data.labels[0]) is not type(model.classes[0]):
            kinds = {str: "text", int: "numbers"}
            raise UserError(
                f"labels so far are {kinds[type(model.classes[0])]}, now {kinds[type(data.labels[0])]} was given; "
                "use one of them"
            )
        return data

    def learn_images(
        self,
        data: LabeledImages,
        *,
        callbacks: Sequence[Callback] = (),
        resume: Callable[[Learner], None] = lambda learner: None,
        cache: Path | None = None,
    ) -> TaskRecord:
        """Learn what `read` returned; see `ClassifierModel.learn` for the arguments.

        If learning fails, the classifier is as it was before.
        """
        before = self._model_or_none
        model = before or self._build(data.shape, len(set(data.labels)))
        saved = copy.deepcopy(model.state_dict()) if before else None
        shown = display(self.quiet)
        try:
            record = model.learn(
                data,
                callbacks=[FiniteCheck(), *callbacks],
                resume=resume,
                cache=cache,
                on_progress=lambda phase, done: shown.phase(f"{phase} {done:.0%}"),
            )
        except BaseException:
            if saved is not None:
                self.set_model(self._restored(model, saved))
            raise
        finally:
            shown.close()
        self.set_model(model)
        return record

    def _report(self, record: TaskRecord) -> None:
        if not self.quiet:
            print(record, file=sys.stderr)

    # ---- prediction --------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most probable label of each image, (N,).

        Args:
            X: Images as for `learn`, an image file, a folder of images, or an iterable of images or files. Files are
                read in batches.
        """
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the probability of each class, (N, classes), in the order of ``classes_``."""
        parts = [np.zeros((0, len(self.model.classes)), np.float32), *self.iterate_probabilities(X)]
        return np.concatenate(parts)

    def iterate_probabilities(self, X: Any) -> Iterator[NDArray[np.float32]]:  # noqa: N803
        """Yield probabilities batch by batch, (b, classes); files are decoded only when their batch is due.

        Args:
            X: As for `predict`.
        """
        channels, size = self.model.shape[0], self.model.shape[-1]
        for images in iterate_images(X, _BATCH):
            rows = [fit(image, channels, size) for image in images]
            with torch.inference_mode():
                yield self.pipeline(torch.cat(rows)).cpu().numpy()

    def iterate_top(
        self, files: Sequence[Path], count: int, *, skip_corrupt: bool = False
    ) -> Iterator[tuple[Path, list[tuple[Label, float]]]]:
        """Yield each file with its most probable classes and their probabilities; files are decoded batch by batch.

        Args:
            files: Image files.
            count: How many classes.
            skip_corrupt: Whether to leave out images that cannot be decoded, with a warning.
        """
        classes = self.model.classes
        for start in range(0, len(files), _BATCH):
            read = dict(_decoded(files[start : start + _BATCH], skip_corrupt))
            for file, row in zip(read, self.predict_proba(read.values()), strict=True):
                best = row.argsort()[::-1][:count]
                yield file, [(classes[number], float(row[number])) for number in best.tolist()]

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the share of images whose label is predicted, from 0 to 1.

        Args:
            X: Images, a folder with one folder for each class, or an iterable of (image, label), as for `learn`.
            y: One label for each image of an array.
        """
        if y is None:
            data = self.read(X)
            X, y = data.x, data.labels  # noqa: N806
        labels, given = self.predict(X).tolist(), as_labels(y)
        if len(labels) != len(given):
            raise UserError(
                f"there are {len(labels)} images and {len(given)} labels; give one for each image"
            )
        right = sum(int(a == b) for a, b in zip(labels, given, strict=True))
        return right / max(len(given), 1)

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

    def __sklearn_is_fitted__(self) -> bool:
        return self._model_or_none is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
            non_deterministic=False,
        )

    def __repr__(self) -> str:
        shown = {
            name: value for name, value in self.get_params().items() if value != _DEFAULTS.get(name, ...)
        }
        given = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"ContinualClassifier({given})"

    # ---- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything that is needed to predict and to go on learning into a folder.

        Args:
            path: The folder; a state that is there already is replaced.
        """
        model, folder = self.model, Path(path)
        with held(folder):
            write_state(folder, self.parameters, model)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: nn.Module | EncoderBuilder | None = None,
        device: str | None = None,
        quiet: bool = False,
    ) -> Self:
        """Read what `save` or ``gplasc learn`` wrote.

        An encoder that was given as ``FILE.py:function`` is built by the copy of that file in the folder: load such a
        state only if you trust where it comes from.

        Args:
            path: The folder.
            encoder: The encoder, if it was passed as an object; its weights are replaced.
            device: Where to compute; default: the accelerator if there is one.
            quiet: Whether to show nothing from now on.
        """
        for _ in range(2):
            saved = read_state(Path(path))
            try:
                return cls._from(saved, encoder, device, quiet)
            except FileNotFoundError:  # another process has just written the next state
                continue
        raise UserError(f"files of {path} are missing; restore the state folder from a copy")

    # ---- the model ---------------------------------------------------------------------------------------------

    @property
    def model(self) -> ClassifierModel:
        """What was learned.

        Raises:
            UserError: If nothing was learned yet.
        """
        model = self._model_or_none
        if model is None:
            raise _NotLearned("nothing was learned yet; call learn(X, y) first")
        return model

    @property
    def pipeline(self) -> Pipeline:
        """The module that maps images (N, C, H, W) to probabilities (N, classes)."""
        assert self.model
        return self._pipeline

    def resolve(self) -> RunSpec:
        """Return the complete settings."""
        spec = RunRequest(
            PRESETS,
            self.method,
            self.plugins,
            buffer=self.buffer,
            seed=self.seed,
            scale=self.scale,
            settings=self.settings,
            encoder=self._chosen(),
        ).resolve()
        if not 0 <= self.held_out < 1:
            raise UserError(f"held_out is {self.held_out}; give a share from 0 to below 1")
        if find_method(self.method).pool == "everything":
            raise UserError(f"the method '{self.method}' needs the images of all tasks, which are not kept")
        return spec

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor as plain JSON values; an encoder by its name."""
        name = self.encoder if isinstance(self.encoder, str) else self.model.config.model.encoder
        given = {**self.get_params(), "plugins": list(self.plugins), "encoder": name}
        return {name: value for name, value in given.items() if name not in ("device", "quiet")}

    @classmethod
    def _from(
        cls,
        saved: SavedState,
        encoder: nn.Module | EncoderBuilder | None,
        device: str | None,
        quiet: bool,
    ) -> Self:
        given = {**saved.parameters, "plugins": tuple(saved.parameters["plugins"])}
        if encoder is None and saved.config.model.encoder.startswith(OBJECT):
            name = saved.config.model.encoder.removeprefix(OBJECT)
            raise UserError(
                f"the state was learned with an encoder object ({name}); load it in Python with "
                "ContinualClassifier.load(path, encoder=...)"
            )
        given["encoder"] = saved.encoder if encoder is None else encoder
        new = cls(**given, device=device, quiet=quiet)
        tensors, weights = saved.read_tensors()
        try:
            model = new._build(saved.shape, len(saved.records[0].new_classes), saved.config)
            if weights is not None:
                assert model.frozen_encoder is not None
                model.frozen_encoder.load_state_dict(weights)
            model.load_state_dict(tensors)
            model.classes, model.records = saved.classes, saved.records
            new.set_model(model)
        except MISFIT as error:
            raise UserError(
                f"what {saved.folder} holds does not fit its settings ({misfit(error)}); "
                "restore the state folder from a copy"
            ) from error
        return new

    def _build(
        self, shape: tuple[int, int, int], num_classes: int, config: Config | None = None
    ) -> ClassifierModel:
        """Return a model that has learned nothing; settings that are not given follow from the arguments."""
        config = config or self.resolve().config
        choice = self._chosen()
        self.__dict__.pop("_choice", None)  # the model trains this encoder
        return ClassifierModel(
            config,
            shape,
            num_classes,
            encoder=choice.encoder,
            device=check_device(self.device),
            held_out=self.held_out,
        )

    def _restored(self, model: ClassifierModel, tensors: dict[str, Any]) -> ClassifierModel:
        """Return a model as it was before a task that failed."""
        count = tensors["learner"]["position"]["task"]
        records = model.records[:count]
        again = self._build(model.shape, len(records[0].new_classes), model.config)
        if again.frozen_encoder is not None and model.frozen_encoder is not None:
            again.frozen_encoder.load_state_dict(model.frozen_encoder.state_dict())
        again.load_state_dict(tensors)
        again.records = records
        again.classes = [label for record in records for label in record.new_classes]
        return again

    def set_model(self, model: ClassifierModel) -> None:
        """Take over a model."""
        self._model = model
        self._pipeline = model.pipeline()
        self.classes_ = np.array(model.classes)
        self.tasks_ = list(model.records)

    @property
    def _model_or_none(self) -> ClassifierModel | None:
        return getattr(self, "_model", None)

    def _chosen(self) -> EncoderChoice:
        """Return the encoder, built unless it is a built-in one; kept until a model takes it."""
        kept: tuple[object, EncoderChoice] | None = self.__dict__.get("_choice")
        if kept is not None and kept[0] is self.encoder:
            return kept[1]
        choice = choose_encoder(self.encoder)
        self._choice = (self.encoder, choice)
        return choice

    def _wanted_size(self, data: object) -> int | None:
        if self.image_size is not None:
            if self.image_size < 1:
                raise UserError(f"image_size is {self.image_size}; give a number of pixels, 1 or more")
            return self.image_size
        encoder = self._chosen().encoder
        if encoder is not None and encoder.image_size is not None:
            return encoder.image_size
        return _FOLDER_SIZE if isinstance(data, (str, Path)) else None


_PARAMETERS = tuple(inspect.signature(ContinualClassifier).parameters)[:-1]  # without **settings
_DEFAULTS = ContinualClassifier().get_params()


class _NotLearned(UserError, AttributeError, ValueError):
    """Something was asked of a classifier that has learned nothing; scikit-learn expects these two base classes."""


def _decoded(files: Sequence[Path], skip_corrupt: bool) -> Iterator[tuple[Path, Tensor]]:
    for file in files:
        try:
            yield file, read_image(file)
        except UserError as error:
            if not skip_corrupt:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
