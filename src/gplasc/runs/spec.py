"""From the few things a user says to the complete settings of a run, with the source of each value."""

from __future__ import annotations

import reprlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, ValidationError

from gplasc._io.text import did_you_mean
from gplasc.errors import UserError
from gplasc.learning import Component, Method
from gplasc.learning.devices import check_device, choose_precision, computes_bfloat16
from gplasc.methods import find_method
from gplasc.plugins import find_plugin
from gplasc.results.record import Record
from gplasc.runs.encoder import EncoderChoice, choose_encoder
from gplasc.settings.components import is_file, list_methods, list_plugins, section_names, source_digest
from gplasc.settings.presets import matching_rules
from gplasc.settings.types import OBJECT, Config, Scale, Settings
from gplasc.streams import Stream, fingerprint, list_streams

OURS = "ours: the default"
"""The source of a value that nobody published or gave."""
_PRECISION = "train.precision"
_OPEN = "auto: suits the encoder and the device"
_SYNONYMS = {"learning_rate": "lr", "batch_size": "batch", "num_epochs": "epochs", "buffer_size": "buffer"}
"""What others call a setting, for the hint after a wrong name."""


class RunSpec(Settings):
    """What a run computes: a complete configuration and where each of its values comes from."""

    config: Config
    sources: dict[str, str]
    presets: dict[str, str | None] = Field(default_factory=dict)
    """For each component in a user's file the built-in one whose presets it takes, see `_preset_owner`."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the presets, and of plug-ins that do nothing."""
        notes, config = [], self.config
        for name, owner in self.presets.items():
            noun, ways = "plug-in", "LIKE = 'gplasc' in its class"
            if name == config.method:
                noun, ways = "method", "LIKE = 'er' in its class, --like er, or like='er' in Python"
            taken = f"the presets of {owner}" if owner else "no presets: every stream has the defaults"
            notes.append(f"{name} takes {taken}; for those of a built-in {noun}, write {ways}")
        if config.plugins and not find_method(config.method).trains:
            notes.append(
                f"{config.title} is {config.method} alone, which trains nothing: plug-ins do nothing"
            )
        return tuple(notes)

    @property
    def run_id(self) -> str:
        """See `Config.run_id`; it covers the data only after `identified`."""
        return self.config.run_id

    @property
    def title(self) -> str:
        """See `Config.title`."""
        return self.config.title

    def require_presets(self) -> None:
        """Refuse a component of the user's own that is of no family that has presets."""
        for note, owner in zip(self.notes, self.presets.values(), strict=False):
            if owner is None:
                raise UserError(note)

    def identified(self, data_dir: str | Path | None = None, *, stream: Stream | None = None) -> RunSpec:
        """Add the digest of the data to what the run id covers; `stream` is one that was built before."""
        spec = self if stream is None else self._without_building()
        return spec._identify("data", fingerprint(stream or self.config.stream, data_dir=data_dir))

    def _without_building(self) -> RunSpec:
        """Return the run of a stream that was built before: settings that decide how one is built have no values."""
        kind = type(self.config.data)
        building = [name for name, field in kind.model_fields.items() if field.default is None]
        names = [f"data.{name}" for name in building]
        if given := [name for name in names if self.sources.get(name) == "given"]:
            raise UserError(
                f"{given[0]} does not change a stream that is an object; give it to what builds the stream, such as "
                "gplasc.open_stream"
            )
        data = self.config.data.model_copy(update=dict.fromkeys(building))
        config = self.config.model_copy(update={"data": data})
        sources = {name: "given" if name in names else source for name, source in self.sources.items()}
        return self.model_copy(update={"config": config, "sources": sources})

    @property
    def precision_is_open(self) -> bool:
        """Whether nobody gave a precision, and `settled` was not called."""
        return self.sources.get(_PRECISION) == _OPEN

    def settled(self, *, native: bool, begun: bool = False) -> RunSpec:
        """Return the run in the precision for devices that compute bfloat16, or for others; a given one stays."""
        if not self.precision_is_open:
            return self
        why = "as it was begun" if begun else "suited the encoder and the device when it was planned"
        sources = {**self.sources, _PRECISION: f"auto: {why}"}
        return self.model_copy(
            update={"config": _with_precision(self.config, native=native), "sources": sources}
        )

    @classmethod
    def stored(cls, record: Record, method: str, plugins: Sequence[str]) -> RunSpec:
        """Return what was computed, by a method and plug-ins under the names that they have now.

        Settings by old names are read as the new ones.
        """
        config: Config = _validated(Config, record["settings"], "")
        kinds = find_components(method, plugins)
        if len(kinds) != len(config.options):
            raise UserError(f"{record.run_id} has settings of components that it does not name; run it again")
        options = _options(kinds, dict(zip(kinds, config.options.values(), strict=True)))
        named = {"method": method, "plugins": tuple(plugins)}
        return cls(config=config.model_copy(update=named | options), sources=record.sources)

    def check_sources(self) -> None:
        """Refuse a user's file that was edited after the run was planned; call it after the import."""
        config, encoder = self.config, self.config.model.encoder
        for name in filter(is_file, (config.method, *config.plugins)):
            self._identify(name, source_digest(name))
        if ":" in encoder and not encoder.startswith(OBJECT):  # as in `EncoderChoice`
            self._identify("encoder", config.identity["encoder"][:32] + source_digest(encoder)[:32])

    def _identify(self, name: str, digest: str | None) -> RunSpec:
        """Add a digest, if there is one, to what the run id covers; a different one is refused."""
        identity = self.config.identity | ({name: digest} if digest else {})
        if not self.config.identity.items() <= identity.items():
            raise UserError(f"{name} changed after the run was planned; give the same command again")
        return self.model_copy(update={"config": self.config.model_copy(update={"identity": identity})})


@dataclass(frozen=True)
class RunRequest:
    """The few things that a user says about a run; methods and plug-ins by name, or by the path of a Python file."""

    stream: str
    method: str
    plugins: Sequence[str] = ()
    buffer: int | None = None
    seed: int = 0
    scale: Scale = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted name (``train.lr``) or, where only one setting has it, by its last part (``margin``)."""
    encoder: EncoderChoice | None = None
    """Default: the one that the settings name."""
    like: str | None = None
    """The method whose presets a method of the user's own takes; default: see `_preset_owner`."""

    def resolve(self) -> RunSpec:
        """Build the complete settings from the defaults, the presets, ``settings`` and the encoder; later ones win."""
        components = (self.method, *self._check_names())
        kinds = find_components(self.method, components[1:])
        sections = Config.sections() | {name: kind.Settings for name, kind in kinds.items()}
        names = {
            f"{section}.{accepted}": f"{section}.{name}"
            for section, kind in sections.items()
            for accepted, name in kind.accepted_names().items()
        }
        settings = {**self.settings, **(self.encoder.settings(self.settings) if self.encoder else {})}
        given = {full_name(name, names): value for name, value in settings.items()}
        if self.buffer is not None:
            given["buffer"] = self.buffer
        if "train.epochs" in given:  # the first task has as many, unless its number is given too
            given.setdefault("train.first_epochs", None)
        owners = dict(zip(kinds, map(_preset_owner, components, kinds.values()), strict=True))
        if self.like:
            owners[next(iter(kinds))] = self.like
        values, sources = self._presets(owners, names, given)
        values |= given
        about = {
            "stream": self.stream,
            "method": self.method,
            "plugins": components[1:],
            "seed": self.seed,
            "scale": self.scale,
            "identity": {name: source_digest(name) for name in filter(is_file, components)},
        }
        groups: dict[str, dict[str, Any]] = {section: {} for section in sections}
        for name, value in values.items():
            section, _, key = name.rpartition(".")
            (groups[section] if section else about)[key] = value
        options = _options(kinds, {section: groups.pop(section) for section in kinds})
        config: Config = _validated(Config, about | groups | options, "")
        _check_values(config)
        encoder = self.encoder or choose_encoder(config.model.encoder)
        sources |= dict.fromkeys(("stream", "method", "plugins", "scale", *given), "given")
        if self.seed:
            sources["seed"] = "given"
        if config.train.precision == "auto":
            native = computes_bfloat16(check_device(None))
            config, sources[_PRECISION] = _with_precision(config, native=native), _OPEN
        sources = {name: sources.get(name, OURS) for name in config.flat()}
        presets = {n: owner for n, owner in zip(components, owners.values(), strict=True) if is_file(n)}
        spec = RunSpec(config=config, sources=sources, presets=presets)
        return spec._identify("encoder", encoder.identity)

    def _check_names(self) -> tuple[str, ...]:
        """Check the type of each name; return the plug-ins."""
        more = {"stream": ", folder:PATH or npz:PATH", "method": " or the path of a Python file"}
        for name, hint in more.items():
            if not isinstance(value := getattr(self, name), str):
                raise UserError(f"{name} is {value!r}; give a name (see `gplasc list`){hint}")
        if not isinstance(self.plugins, Iterable):
            raise UserError(
                f"plugins is {self.plugins!r}; give a list of names such as ['gplasc'], or leave it out"
            )
        plugins = (self.plugins,) if isinstance(self.plugins, str) else tuple(self.plugins)
        for name in plugins:
            if not isinstance(name, str):
                raise UserError(
                    f"the plug-in {name!r} is not a name; give a name or the path of a Python file"
                )
            if plugins.count(name) > 1:
                raise UserError(f"the plug-in '{name}' is named twice; name it once")
        if self.scale not in get_args(Scale):
            raise UserError(f"scale is {self.scale!r}; allowed: {', '.join(get_args(Scale))}")
        if self.like and not (is_file(self.method) and self.like in list_methods()):
            raise UserError(
                f"like is '{self.like}' for the method '{self.method}'; it names a built-in method, for a method of "
                "your own in a Python file"
            )
        return plugins

    def _presets(
        self, owners: Mapping[str, str | None], names: Mapping[str, str], given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values of the presets by full name, and the source of each; owners are by section."""
        method, *plugins = (owner or "" for owner in owners.values())
        frozen = given.get("model.encoder_lr") == 0 or self.stream.startswith("features:")
        facts = {
            "stream": [self.stream],
            "method": [method],
            "plugin": plugins,
            "buffer": [str(self.buffer)],
            "encoder": ["frozen" if frozen else "trained"],
            "data": ["own" if _is_own(self.stream) else "built-in"],
            "optimizer": [str(given.get("train.optimizer", "sgd"))],
        }
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for rule in matching_rules(self.scale, facts):
            for name, value in rule.set.items():
                section, _, key = name.rpartition(".")
                # A rule about the settings of `er` is one about those of all components that take its presets.
                for full in [f"{own}.{key}" for own, owner in owners.items() if owner == section] or [name]:
                    # A rule may speak of a plug-in or an option that this run does not have.
                    if full in names or full == "buffer":
                        full = names.get(full, full)
                        values[full], sources[full] = value, rule.source
        return values, sources


def find_components(method: str, plugins: Iterable[str]) -> dict[str, type[Component[Any]]]:
    """Return the classes of the method and of each plug-in by the name of their section of the settings."""
    plugins = tuple(plugins)
    kinds: list[type[Component[Any]]] = [find_method(method), *map(find_plugin, plugins)]
    return dict(zip(section_names(method, plugins), kinds, strict=True))


def _is_own(stream: str) -> bool:
    """Tell whether a stream is of the user's own images: a folder, an npz file, or an object of another name."""
    kind, built_in = stream.partition(":")[0], {info.name.partition(":")[0] for info in list_streams()}
    return kind in ("folder", "npz") or kind not in {*built_in, "classifier"}


def _preset_owner(name: str, kind: type[Component[Any]]) -> str | None:
    """Return whose presets a component takes: its own, those of ``LIKE``, or those of its built-in base class."""
    if not is_file(name):
        return name
    for base in kind.__mro__:
        if "LIKE" in vars(base):
            known = list_methods() if issubclass(kind, Method) else list_plugins()
            if (owner := str(vars(base)["LIKE"])) not in known:
                raise UserError(f"LIKE in {name} is '{owner}'; {did_you_mean(owner, known)}")
            return owner
        package, _, module = base.__module__.rpartition(".")
        if package in ("gplasc.methods", "gplasc.plugins") and module != "base":
            return module.replace("_", "-")
    return None


def _with_precision(config: Config, *, native: bool) -> Config:
    """Return the configuration with what the precision "auto" stands for."""
    model, trained = config.model, config.model.encoder_lr > 0 and not config.stream.startswith("features:")
    precision = choose_precision(model.encoder, model.width, trained=trained, native=native)
    return config.model_copy(update={"train": config.train.model_copy(update={"precision": precision})})


def identify_all(specs: Iterable[RunSpec], *, data_dir: str | Path | None = None) -> list[RunSpec]:
    """Like `RunSpec.identified` for many runs, looking at each stream once; missing data is left to the runs."""

    @cache
    def digest(stream: str) -> str | None:
        try:
            return fingerprint(stream, data_dir=data_dir)
        except UserError:
            return None

    return [spec._identify("data", digest(spec.config.stream)) for spec in specs]


def settle(
    specs: Sequence[RunSpec], out: Path, device: str | None = None, known: Container[str] = ()
) -> list[RunSpec]:
    """Choose the precision, once for all identified runs whose settings leave it open, and keep it where they go on.

    Runs that were begun in the folder `out`, or are known, perhaps from another machine, decide for all of them;
    otherwise the device does.
    """

    def begun(spec: RunSpec, *, native: bool) -> bool:
        own, other = (spec.settled(native=choice).run_id for choice in (native, not native))
        return own != other and (own in known or (out / own).exists())

    if not any(spec.precision_is_open for spec in specs):
        return [*specs]
    before = [native for native in (True, False) if any(begun(spec, native=native) for spec in specs)]
    native = before[0] if before else computes_bfloat16(check_device(device))
    return [spec.settled(native=native, begun=bool(before)) for spec in specs]


def _options(
    kinds: Mapping[str, type[Component[Any]]], values: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the fields of `Config` for the settings of method and plug-ins."""
    groups = {name: _validated(kind.Settings, values[name], f"{name}.") for name, kind in kinds.items()}
    return {
        "options": {name: group.model_dump(mode="json") for name, group in groups.items()},
        "hashed_options": {name: group.hashed_values() for name, group in groups.items()},
    }


def _check_values(config: Config) -> None:
    if config.data.evaluate_on == "validation" and config.data.validation == 0:
        raise UserError("data.evaluate_on is 'validation' but data.validation is 0; give a share such as 0.1")
    if config.train.schedule == "multistep" and not config.train.milestones:
        raise UserError(
            "train.schedule is 'multistep' but train.milestones is empty; give epochs such as train.milestones=[35,45]"
        )
    if config.train.batch < 2 and find_method(config.method).pool == "split":
        raise UserError(
            f"train.batch is {config.train.batch}, but a batch of {config.title} holds samples of the task and "
            "of the memory; give 2 or more"
        )


def _validated(kind: type[Any], values: Mapping[str, Any], prefix: str) -> Any:
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        name = prefix + ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "missing":
            raise UserError(
                f"the setting {name} has no default; give it a value: --set {name}=VALUE, or in Python "
                f'**{{"{name}": VALUE}}'
            ) from None
        message = problem["msg"][0].lower() + problem["msg"][1:300]
        given = reprlib.repr(problem["input"])
        raise UserError(f"the setting {name} was given as {given}: {message}") from None


def full_name(name: str, known: Mapping[str, str]) -> str:
    """Return the full name of a setting that was given by it, by its last part, or by a former name."""
    if name in known:
        return known[name]
    matches = sorted(full for full in known if full.rpartition(".")[2] == name)
    if len(matches) == 1:
        return known[matches[0]]
    if matches:
        matches.sort(key=lambda full: full.partition(".")[0] != "train")
        raise UserError(f"the setting '{name}' could be {' or '.join(matches)}; write the full name")
    section, dot, last = name.rpartition(".")
    usual = f"{section}{dot}{_SYNONYMS.get(last, last)}"
    if usual != name:
        raise UserError(f"there is no setting '{name}' here; did you mean '{full_name(usual, known)}'?")
    if name in ("stream", "method", "plugin", "plugins", "buffer", "seed", "scale"):
        option, argument = ("plugin", "plugins") if name.startswith("plugin") else (name, name)
        raise UserError(
            f"'{name}' is not among the settings by name; give it as --{option}, or {argument}= in Python"
        )
    if owner := _owner_of(name):
        own = owner.split()[1]
        needs = f"--plugin {own} (plugins=['{own}'] in Python)" if "plug-in" in owner else f"the method {own}"
        raise UserError(f"the setting '{name}' is one of the {owner}, which is not here; it needs {needs}")
    short = () if "." in name else (full.rpartition(".")[2] for full in known)
    hint = did_you_mean(name, {*known, *short})
    if hint.startswith("allowed"):
        hint = "see `gplasc show` for those there are"
    raise UserError(f"there is no setting '{name}' here; {hint}")


def _owner_of(name: str) -> str | None:
    """Return the first built-in component that has a setting, and how it is named."""
    section, _, last = name.rpartition(".")
    kinds = {f"plug-in {owner}": find_plugin(owner).Settings for owner in list_plugins()}
    kinds |= {f"method {owner}": find_method(owner).Settings for owner in list_methods()}
    own = (title for title, kind in kinds.items() if last in kind.accepted_names())
    return next((title for title in own if section in ("", title.split()[1])), None)
