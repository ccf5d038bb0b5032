"""The contract: what the loop asks of a method and of a plug-in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.learning.batch import AugmentationKind, Batch, Head, Part, PoolKind
from gplasc.learning.context import Context
from gplasc.learning.optimizer import ModuleRate
from gplasc.models import Network
from gplasc.settings.types import Settings

SettingsType = TypeVar("SettingsType", bound=Settings)


class Component(Generic[SettingsType]):
    """What methods and plug-ins share: typed settings, trainable modules of their own, and state."""

    Settings: ClassVar[type[Settings]] = Settings
    LIKE: ClassVar[str]
    """The built-in method or plug-in whose presets a class in a file of your own takes; default: that of its base."""

    DEVIATIONS: ClassVar[tuple[str, ...]] = ()
    """Where this implementation departs from its paper or official code, one sentence each."""

    heads: frozenset[Head] = frozenset()
    """The heads the network must have."""

    def __init__(self, settings: SettingsType) -> None:
        self.settings = settings

    @classmethod
    def check_hooks(cls) -> None:
        """Check that the hooks of a user's class can be called as the contract says.

        Raises:
            UserError: If one has other arguments, for instance those of an older version.
        """
        contract = Method if issubclass(cls, Method) else Plugin
        for name in sorted(vars(contract).keys() & {"parts", "loss", "adjust_gradients", "after_step"}):
            wanted = list(inspect.signature(getattr(contract, name)).parameters)
            given = inspect.signature(getattr(cls, name))
            try:
                given.bind(*wanted)
            except TypeError:
                raise UserError(
                    f"{cls.__name__}.{name} has the arguments ({', '.join(given.parameters)}); write "
                    f"`def {name}({', '.join(wanted)})`: parts are named, and a part has its outputs as part.out"
                ) from None

    def modules(self, ctx: Context, network: Network) -> dict[str, nn.Module]:
        """Return further trainable modules by name; called once, before the first task.

        Draw initial weights from a generator of your own, such as ``ctx.random["weights.NAME"]``: then the weights of
        other components do not depend on whether this one is there.
        """
        return {}

    def grow(self, ctx: Context, num_classes: int) -> None:
        """Make room for ``num_classes`` classes, when unannounced ones arrive, in modules other than `Prototypes`."""

    def learning_rates(self) -> dict[str, ModuleRate]:
        """Return learning rates of your own modules, by name, where they differ from the network's."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what must survive a restart beyond modules and memory: tensors and plain containers."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""

    def begin_task(self, ctx: Context) -> None:
        """Prepare for ``ctx.task``; not called again when a run resumes inside the task."""


class Method(Component[SettingsType]):
    """A continual-learning method; it overrides two to four of the hooks below."""

    views: ClassVar[int] = 1
    augmentation: AugmentationKind = "replay"
    pool: ClassVar[PoolKind] = "current"
    """What batches are drawn from: the task's samples alone, shuffled with the memory (mixed), with a fixed share of
    each batch from the memory (split), or all tasks seen so far (everything)."""

    trains: ClassVar[bool] = True
    """Whether the network is trained. If not, a task has no epochs: the predictor is computed from the features."""

    forwards_memory: bool = False
    """Whether `parts` draws remembered samples; those of a mixed or split pool are forwarded anyway."""

    teacher: Literal["train", "eval"] | None = None
    """The mode in which the previous model runs, or None if the method does not need it."""

    def parts(self, batch: Batch, ctx: Context) -> dict[str, Part]:
        """Return what is forwarded for this batch, by name; each part is a forward pass of its own."""
        return {"batch": ctx.part(batch, views=self.views)}

    def loss(self, parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the named terms that are minimized; ``parts["batch"].out`` are the network's outputs for a part."""
        raise UserError(f"{type(self).__name__} has no loss; override `loss`, see the methods of gplasc")

    def adjust_gradients(self, parts: dict[str, Part], ctx: Context) -> None:
        """Change the gradients between backward and the optimizer step (GEM), see `Context.set_gradient`."""

    def after_step(self, batch: Batch, parts: dict[str, Part], ctx: Context) -> None:
        """Act after the optimizer step, for instance fill a reservoir."""

    def predictor(self, ctx: Context) -> nn.Module:
        """Return a new predictor, which maps raw features, (N, D), to class scores, (N, classes seen so far).

        It need not be trained yet. A run that resumes after a task builds it with this function and then loads its
        state.
        """
        raise UserError(f"{type(self).__name__} has no predictor; override `predictor`, see gplasc's methods")

    def fit_predictor(self, predictor: nn.Module, ctx: Context) -> None:
        """Train the predictor; called after the task's last step and before `end_task` changes the memory."""

    def end_task(self, ctx: Context) -> None:
        """Act after the task's last step: update the memory. The predictor is ``ctx.predictor``."""


class Plugin(Component[SettingsType]):
    """Terms that compose with any method; a plug-in never edits the method."""

    @property
    def needs_previous(self) -> bool:
        """Whether the model after the last task must be kept even if the method does not ask for it."""
        return False

    def parts(self, batch: Batch, method_parts: dict[str, Part], ctx: Context) -> dict[str, Part]:
        """Return further parts to forward by name, given the method's.

        They leave BatchNorm's running statistics alone: those describe the images that are evaluated.
        """
        return {}

    def loss(self, method_parts: dict[str, Part], parts: dict[str, Part], ctx: Context) -> dict[str, Tensor]:
        """Return the named terms, given the method's parts and this plug-in's; other components use other names."""
        return {}

    def adjust_gradients(self, method_parts: dict[str, Part], parts: dict[str, Part], ctx: Context) -> None:
        """Change the gradients after backward and before the method's `adjust_gradients`.

        The network's outputs at other weights come from `Context.forward`, their gradient from `Context.gradient`.
        """

    def refine(self, predictor: nn.Module, ctx: Context) -> nn.Module:
        """Return the predictor that is evaluated and stored: the method's own, or a module around it.

        Called after `Method.end_task`. A run that is restored calls it with an untrained predictor and then loads the
        state, so what it returns may depend on ``ctx.modules`` and ``ctx.classes_per_task`` alone.
        """
        return predictor

    def diagnostics(self, ctx: Context) -> dict[str, Any]:
        """Return what the geometry of the current task should be compared with, as arguments of `diagnose`."""
        return {}
