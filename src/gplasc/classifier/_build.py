"""From the arguments of a classifier, or a state folder, to a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from gplasc.classifier._code import code_folder, collect_code, file_of, moved
from gplasc.classifier._frozen import Frozen
from gplasc.classifier._gate import check_share
from gplasc.classifier._heads import HEADS
from gplasc.classifier._intake import Intake
from gplasc.classifier._model import Model, Options
from gplasc.classifier._state import State, fill_model, read_code, read_tensors
from gplasc.classifier._trained import Trained
from gplasc.classifier.encoder import DEFAULT
from gplasc.errors import UserError
from gplasc.learning.devices import check_device
from gplasc.methods import find_method
from gplasc.models import ENCODERS, EncoderBuilder, ForeignEncoder
from gplasc.runs.encoder import EncoderChoice, choose_encoder
from gplasc.runs.spec import RunRequest
from gplasc.settings.types import OBJECT

if TYPE_CHECKING:
    from gplasc.classifier.estimator import ContinualClassifier

FEATURES = "features"  # the encoder of those who compute features themselves
_PRESETS = "classifier"  # the name under which presets know a classifier, in place of a stream's
_FOLDER_SIZE, _FOREIGN_SIZE = 64, 224  # of files, for encoders without a size of their own


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they look after a round trip through JSON; numbers of numpy become Python's."""

    def convert(value: object) -> object:
        if isinstance(value, np.generic):
            return value.item()
        raise UserError(f"a setting is {value!r}; give text, numbers or lists of them")

    changed: dict[str, Any] = json.loads(json.dumps(dict(values), default=convert))
    return changed


def check_parameters(c: ContinualClassifier) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments as plain values, an object as encoder by "", and the users' files that they name."""
    given = {name: value for name, value in c.get_params().items() if name not in ("device", "quiet")}
    given |= {"encoder": c.encoder if isinstance(c.encoder, str) else "", "plugins": list(c.plugins)}
    given = plain(given)
    for name in ("held_out", "reject"):
        given[name] = check_share(name, given[name])
    for name, least in (("buffer", 0), ("seed", 0), ("keep_features", 0), ("image_size", 1)):
        left_out = given[name] is None and name in ("keep_features", "image_size")
        if not left_out and (type(given[name]) is not int or given[name] < least):
            raise UserError(f"{name} is {given[name]!r:.99}; give a whole number, {least} or more")
    if not all(isinstance(name, str) for name in (given["method"], *given["plugins"])):
        raise UserError(
            f"method and plug-ins are {given['method']!r:.99} and {given['plugins']!r:.99}; give names"
        )
    return given, collect_code([given["method"], *given["plugins"], given["encoder"]])


def build_model(c: ContinualClassifier, intake: Intake) -> Model:
    """Return a model that has learned nothing, for images or features such as the first."""
    given, code = check_parameters(c)
    method, plugins, named = given["method"], given["plugins"], isinstance(c.encoder, str)
    if method == "auto" and given["encoder"] in ENCODERS:  # an encoder that has no weights is trained
        method, plugins = "co2l", plugins or ["gplasc"]
    heads = method in ("auto", *HEADS)
    if heads and plugins:
        raise UserError(f"plug-ins need a method that trains, such as co2l; {method!r} trains nothing")
    if intake.features and not (heads and c.encoder == "auto"):
        raise UserError("features were given, which need no encoder; use method auto, logistic, slda or ncm")
    settings = dict(c.settings)
    if c.encoder == "auto" and not {"encoder_lr", "model.encoder_lr"} & set(settings):
        settings["model.encoder_lr"] = 0.0  # an adapter on the pretrained encoder
    with code_folder(code) as root:  # from copies: what they lack is noticed before anything is learned
        choice = None
        if not intake.features:
            choice = _choose(c, moved(given["encoder"], root) if named else c.encoder)
        request = RunRequest(
            _PRESETS,
            "ncm" if heads else moved(method, root),
            moved(plugins, root),
            buffer=int(c.buffer),
            seed=int(c.seed),
            scale=c.scale,
            settings=settings,
            encoder=choice,
        )
        config, shape = request.resolve().config, tuple(intake.first.shape)
        if choice:
            usual = _FOREIGN_SIZE if choice.encoder else _FOLDER_SIZE
            own = c.image_size or (choice.encoder.image_size if choice.encoder else None)
            size = own or (usual if intake.from_files else min(shape[1:]))
            shape = (shape[0], size, size)
        name = moved(choice.name, "") if choice else FEATURES
        given = {**moved(given, ""), "encoder": moved(given["encoder"], "") or name}
        encoder = choice.encoder if choice else None
        options = Options(config, shape, encoder, name, check_device(c.device), given, code)
        if not heads and find_method(config.method).pool == "everything":
            raise UserError(f"the method '{method}' needs the images of all tasks, which are not kept")
        return Frozen(options) if heads else Trained(options)


def _choose(c: ContinualClassifier, name: str | nn.Module | EncoderBuilder) -> EncoderChoice:
    """Return the encoder, built unless it is a built-in one, for images of the size that was given."""
    choice = choose_encoder(DEFAULT if isinstance(name, str) and name == "auto" else name)
    if isinstance(choice.encoder, ForeignEncoder) and c.image_size is not None:
        choice.encoder.image_size = None
        choice.encoder.check_size(c.image_size)
        choice.encoder.image_size = c.image_size
    return choice


def load_model(
    c: ContinualClassifier,
    folder: Path,
    state: State,
    encoder: nn.Module | EncoderBuilder | None,
    allow_code: bool,
) -> Model:
    """Return the model of a state folder, for a classifier with its arguments; see `ContinualClassifier.load`."""
    config = state.config
    names = [c.method, *c.plugins, state.encoder, config.method, *config.plugins, config.model.encoder]
    own = [n for n in names if file_of(n) or (":" in n and not n.startswith(("gplasc.", OBJECT)))]
    if own and not allow_code:
        raise UserError(f"{folder} runs Python code of its own ({own[0]}); if you trust it, add --allow-code")
    if encoder is None and state.encoder.startswith(OBJECT):
        name = state.encoder.removeprefix(OBJECT)
        raise UserError(f"the state has an encoder object ({name}); load it in Python with encoder=...")
    code = read_code(folder, state)
    with code_folder(code) as root:  # from now on the copies are the user's files
        value = moved(state.encoder, root) if encoder is None else encoder
        c.method, c.plugins = moved((c.method, tuple(c.plugins)), root)
        c.encoder = value if c.encoder != "auto" else "auto"
        built = None if state.encoder == FEATURES else _choose(c, value).encoder
        if built is not None and (weights := state.files.get("encoder")):
            built.load_state_dict(read_tensors(folder, weights))
        places = {"method": moved(config.method, root), "plugins": moved(config.plugins, root)}
        device, config = check_device(c.device), config.model_copy(update=places)
        options = Options(config, state.shape, built, state.encoder, device, state.parameters, code)
        model = Frozen(options) if state.kind == "frozen" else Trained(options)
        fill_model(folder, state, model)
        return model
