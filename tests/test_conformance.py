"""Every method, with and without the plug-in, holds to the rules; and the checks catch those who do not."""

import textwrap

import pytest
import torch
from tests.calling import call

from gplasc.conformance import CHECKS, _check, _Subject, check_device
from gplasc.settings.components import list_methods

HEAD = """
    import torch
    from gplasc.settings.types import Settings
    from gplasc.methods.base import ClassifierMethod, ReplayMethod, ReplaySettings, cross_entropy

    class Mine(ClassifierMethod[Settings]):
        def loss(self, parts, ctx):
            return {"ce": cross_entropy(parts["batch"].out.logits, parts["batch"].y)}
"""


@pytest.mark.parametrize("plugins", [(), ("gplasc",)], ids=["alone", "gplasc"])
@pytest.mark.parametrize("method", list_methods())
def test_conforms(method, plugins):
    outcomes = _check(_Subject(method, plugins))
    assert [outcome.check for outcome in outcomes] == list(CHECKS)
    assert [outcome for outcome in outcomes if not outcome.passed] == []


BROKEN = {
    "reproducible from the seed": """
        def after_step(self, batch, parts, ctx):
            with torch.no_grad():
                ctx.network.classifier.bias.add_(0.01 * torch.randn(()))
    """,
    "resumes bit for bit": """
        steps = 0

        def after_step(self, batch, parts, ctx):
            self.steps += 1
            with torch.no_grad():
                ctx.network.classifier.bias[0] += self.steps
    """,
    "memory within its budget": """
        def begin_task(self, ctx):
            ctx.memory.capacity = 100

        def end_task(self, ctx):
            nothing = torch.zeros(0, dtype=torch.long)
            ctx.remember(nothing, torch.arange(len(ctx.task.train)))
    """,
    "sees of the past its memory alone": """
        def end_task(self, ctx):
            if not hasattr(self, "first"):
                self.first = ctx.task.train
            first = self.first.x.float().mean()
            with torch.no_grad():
                ctx.network.classifier.bias.add_(first / 255)
    """,
    "learns, every term finite": """
        def adjust_gradients(self, parts, ctx):
            ctx.network.classifier.bias.grad.fill_(float("nan"))
    """,
    "single-sample classes": """
        def parts(self, batch, ctx):
            if len(ctx.task.train) < 4:
                raise IndexError("no pair in this batch")
            return super().parts(batch, ctx)
    """,
}


def write(tmp_path, body):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(HEAD) + textwrap.indent(textwrap.dedent(body), "    "))
    return str(path)


def test_a_sound_file_passes_with_one_command(tmp_path, capsys):
    assert call("check", write(tmp_path, "")) == 0
    printed = capsys.readouterr().out
    assert "mine+gplasc" in printed
    assert "FAILED" not in printed
    assert all(name in printed for name in CHECKS)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_file_is_caught_by_the_right_check(broken, tmp_path):
    outcomes = {outcome.check: outcome for outcome in _check(_Subject(write(tmp_path, BROKEN[broken])))}
    assert not outcomes[broken].passed
    assert outcomes[broken].detail


def test_images_that_are_kept_beside_the_memory_are_found(tmp_path):
    body = """
        kept = None

        def end_task(self, ctx):
            self.kept = {"deep": [ctx.task.train.x[:3].clone()]}
    """
    outcomes = {outcome.check: outcome for outcome in _check(_Subject(write(tmp_path, body)))}
    assert "Mine.kept.deep[0] holds 3 images" in outcomes["sees of the past its memory alone"].detail


def test_a_constructor_that_returns_something_is_the_users_mistake(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "from gplasc.methods.er import ER\n\n\n"
        "class Mine(ER):\n    def __init__(self, *given):\n        return {}\n"
    )
    assert call("run", "--stream", "seq-digits", "--method", path, "--scale", "smoke", "--out", tmp_path) == 2
    assert f"with what {path} returned" in capsys.readouterr().err


def test_exit_codes_of_failure_and_of_a_wrong_path(tmp_path, capsys):
    assert call("check", write(tmp_path, BROKEN["resumes bit for bit"])) == 1
    assert "FAILED" in capsys.readouterr().out
    assert call("check", str(tmp_path / "absent.py")) == 2
    error = capsys.readouterr().err
    assert "absent.py" in error
    assert "Traceback" not in error


def test_a_device_is_compared_with_the_cpu(tmp_path):
    broken = write(tmp_path, BROKEN["resumes bit for bit"])
    table, passed = check_device("cpu", ["er", broken])
    assert not passed
    (er, checks, one, other), (_, wrong, *_) = table.rows
    assert (er, checks.value) == ("er", "passed")
    assert one.partition(" in ")[0] == other.partition(" in ")[0]
    assert "resumes bit for bit" in wrong.value


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_device_that_is_not_there_is_one_sentence(capsys):
    assert call("check", "--device", "cuda") == 2
    assert "this machine has: cpu" in capsys.readouterr().err
