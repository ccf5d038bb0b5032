"""Schema of state.json, the index of a state folder."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gplasc.settings.types import Config, Scale

_Label = str | int
_Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    """Part of an index: nothing is converted."""

    model_config = ConfigDict(strict=True, extra="forbid")


class _Parameters(_Part):
    """Arguments of the classifier; settings have names of their own."""

    model_config = ConfigDict(strict=True, extra="allow")

    method: str
    plugins: list[str]
    encoder: str
    buffer: int
    seed: int
    scale: Scale
    image_size: int | None
    held_out: float


class _Task(_Part):
    new_classes: list[_Label]
    images: _Count
    held_out: _Count
    accuracy: float | None
    known: _Count
    known_before: float | None
    known_after: float | None
    seconds: float
    digest: str
    notes: list[str]


class _Memory(_Part):
    rows: _Count
    capacity: _Count
    held_out: _Count


class _Files(_Part):
    learned: str = Field(pattern=r"^learned-[0-9a-f]+\.pt$")
    encoder: str | None = Field(pattern=r"^encoder-[0-9a-f]+\.pt$")


class IndexSchema(_Part):
    """The types of an index's values; see `gplasc.classifier.state.write_state` for what writes one."""

    format: int
    gplasc: str
    parameters: _Parameters
    config: Config
    shape: list[Annotated[int, Field(gt=0)]] = Field(min_length=3, max_length=3)
    classes: list[_Label]
    tasks: list[_Task] = Field(min_length=1)
    memory: _Memory
    files: _Files

    @model_validator(mode="after")
    def _agree(self) -> IndexSchema:
        if [label for task in self.tasks for label in task.new_classes] != self.classes or not self.classes:
            raise ValueError("the classes must be those that the tasks brought")
        if len({type(label) for label in self.classes}) > 1 or len(set(self.classes)) < len(self.classes):
            raise ValueError("the classes must be different texts, or different numbers")
        if self.shape[0] not in (1, 3) or self.shape[1] != self.shape[2]:
            raise ValueError("shape must be 1 or 3 channels and a square")
        own = {"device", "quiet"} & set(self.parameters.model_extra or {})
        if own:
            raise ValueError(f"{', '.join(own)} cannot be a setting")
        return self
