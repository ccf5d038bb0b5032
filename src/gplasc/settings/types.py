"""Settings of a run: frozen, typed, read from TOML, named by their hash.

A `Config` is complete: every number that decides the result is in it. `gplasc.runs.spec.RunRequest` builds one from
what a user says, the presets (`gplasc.settings.presets`) and the defaults next to the code.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gplasc.errors import UserError
from gplasc.settings.parse import flatten

Scale = Literal["paper", "cpu", "smoke"]
_LAST_COMMIT = "e46d05f"  # the last one with the settings that are named in RETIRED
OBJECT = "object:"
"""The name of an encoder that was passed as an object begins with this."""


class Settings(BaseModel):
    """Base of all settings: immutable, and an unknown name is an error.

    Run ids are digests of settings. The class variables below keep the ids of stored runs when settings are deleted or
    renamed; one that is younger than stored runs has `exclude_if`, so that its default is neither written nor hashed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    RETIRED: ClassVar[Mapping[str, Any]] = {}
    """Deleted settings with their last default: it is still accepted and hashed; other values are an error."""
    RENAMED: ClassVar[Mapping[str, str]] = {}
    """New name -> old name: the old one is still accepted and is the one that is hashed."""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not (cls.RETIRED or cls.RENAMED):
            return values
        values = dict(values)
        for name, last in cls.RETIRED.items():
            if name in values and (value := values.pop(name)) != last:
                raise UserError(
                    f"the setting {name}={value!r} was removed, only {last!r} is left; "
                    f"the last commit that has it is {_LAST_COMMIT}"
                )
        for name, old in cls.RENAMED.items():
            if old in values:
                values.setdefault(name, values.pop(old))
        return values

    @classmethod
    def accepted_names(cls) -> dict[str, str]:
        """Return the name of each setting by every name under which it is accepted, deleted settings included."""
        old = {before: name for name, before in cls.RENAMED.items()}
        return {name: name for name in (*cls.model_fields, *cls.RETIRED)} | old

    def hashed_values(self) -> dict[str, Any]:
        """Return the settings as the run id covers them."""
        values = self.model_dump(mode="json")
        return {self.RENAMED.get(name, name): value for name, value in values.items()} | dict(self.RETIRED)


class _Data(Settings):
    """Which part of the stream is used, and how images are augmented."""

    classes_per_task: int | tuple[int, ...] | None = None
    class_order: tuple[int, ...] | None = Field(None, exclude_if=operator.not_)  # as `Train.optimizer`
    class_order_seed: int | None = None
    images_per_class: int | None = Field(None, gt=0)
    test_images_per_class: int | None = Field(None, gt=0)
    image_size: int | None = Field(None, gt=0)
    validation: float = Field(0.0, ge=0, lt=1)
    skip_corrupt: bool = False
    evaluate_on: Literal["test", "validation"] = "test"
    crop_scale: float = Field(0.2, gt=0, le=1)
    flip: float = Field(0.5, ge=0, le=1)
    jitter: float = Field(1.0, ge=0, le=5)
    padding: int = Field(4, ge=0)


class _Model(Settings):
    """The network."""

    encoder: str = "resnet18"
    """A name, FILE.py:function or package.module:function; object:NAME is a module that was passed."""
    encoder_lr: float = Field(1.0, ge=0)
    """Factor of the learning rate of the encoder; 0: frozen, features are computed once."""
    feature_views: int = Field(4, ge=0)
    """Augmented views of each training image that a frozen encoder computes."""
    width: int = Field(64, gt=0)
    features: Literal["relu", "signed"] = "relu"
    initialization: Literal["kaiming", "pytorch", "xavier"] = "kaiming"
    """Of the convolutions: Kaiming normal by fan-out, or PyTorch's default; xavier: uniform, also the classifier."""
    projection_hidden: int = Field(512, gt=0)
    projection_dim: int = Field(128, gt=0)


class Train(Settings):
    """Stage 1: the representation (or, for the replay family, everything)."""

    optimizer: Literal["sgd", "adamw"] = Field("sgd", exclude_if="sgd".__eq__)
    """adamw: with betas 0.9 and 0.999; momentum is not used."""
    epochs: int = Field(100, gt=0)
    first_epochs: int | None = Field(None, gt=0)
    """Epochs of the first task; default: epochs."""
    batch: int = Field(256, gt=0)
    lr: float = Field(0.5, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(1e-4, ge=0)
    schedule: Literal["cosine", "multistep", "constant"] = "cosine"
    lr_decay: float = Field(0.1, gt=0, le=1)
    """Cosine ends at lr * lr_decay ** 3; multistep multiplies by lr_decay at each milestone."""
    milestones: tuple[int, ...] = ()
    """multistep: numbers of epochs after which lr decays."""
    warmup_epochs: int = Field(10, ge=0)
    warmup_from: float = Field(0.01, ge=0)
    warmup_target: Literal["task", "epochs"] = "task"
    """Whose schedule gives the lr after the warm-up: that of the task, or in every task one of train.epochs epochs."""
    keep_optimizer: bool = True
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    """Of convolutions and linear layers; auto: bfloat16 where device and encoder gain from it, see `settle`."""


class _Probe(Settings):
    """Stage 2: a linear classifier on the frozen encoder."""

    mode: Literal["cached", "published"] = "cached"
    views: int = Field(8, gt=0)
    """Augmented views of each image that the cached mode computes."""
    epochs: int = Field(100, gt=0)
    batch: int = Field(256, gt=0)
    lr: float = Field(0.5, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    milestones: tuple[int, ...] = (60, 75, 90)
    decay: float = Field(0.2, gt=0, le=1)
    nearest_mean: float = Field(0.0, ge=0, exclude_if=operator.not_)
    """Weight of the log-probabilities of the nearest class mean of the memory, added to the scores."""


class Config(Settings):
    """Everything that decides a run's result."""

    stream: str
    method: str
    plugins: tuple[str, ...] = ()
    buffer: int = Field(200, ge=0)
    seed: int = Field(0, ge=0)
    scale: Scale = "paper"
    data: _Data = _Data()
    model: _Model = _Model()
    train: Train = Train()
    probe: _Probe = _Probe()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The settings of the method, then of the plug-ins, in this order; see `components.section_names`."""
    identity: dict[str, str] = Field(default_factory=dict)
    """Digests of what the settings only name: a user's source files, and the data."""
    hashed_options: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude=True, repr=False)
    """The options as the run id covers them, where they differ: see `Settings.hashed_values`. Not written to files."""

    @classmethod
    def sections(cls) -> dict[str, type[Settings]]:
        """Return the settings that every run has, by section."""
        kinds = {name: field.annotation for name, field in cls.model_fields.items()}
        return {n: kind for n, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Settings)}

    @property
    def run_id(self) -> str:
        """Twelve hexadecimal digits that name these settings."""
        settings = self.model_dump(mode="json")
        settings["options"] |= self.hashed_options
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def title(self) -> str:
        """The method with its plug-ins, as people write it.

        >>> Config(stream="seq-digits", method="co2l", plugins=("gplasc",)).title
        'co2l+gplasc'
        """
        return "+".join((Path(self.method).stem, *self.plugins))

    def flat(self) -> dict[str, Any]:
        """Return every setting under its dotted name; a method's options stand under the method's name."""
        return flatten(self.model_dump(mode="json", exclude={"identity"}))

    def to_toml(self) -> str:
        """Return the settings as TOML, to be read again by `read_toml`."""
        import tomli_w

        tree = self.model_dump(mode="json", exclude={"identity", "options"}, exclude_none=True)
        for name, group in self.options.items():
            tree[name] = {key: value for key, value in group.items() if value is not None}
        return tomli_w.dumps(tree)
