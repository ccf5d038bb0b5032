"""A result knows what produced it: another source file, other data or another stream is another run."""

import textwrap

import numpy as np
import pytest
import torch

import gplasc
from gplasc.errors import UserError
from gplasc.learning import checkpoints
from gplasc.streams import open_stream

METHOD = """
    from gplasc.settings.types import Settings
    from gplasc.methods.base import ClassifierMethod, cross_entropy

    class MySettings(Settings):
        alpha: float = {alpha}

    class Mine(ClassifierMethod[MySettings]):
        Settings = MySettings
        def loss(self, parts, ctx):
            part = parts["batch"]
            return {{"ce": self.settings.alpha * cross_entropy(part.out.logits, part.y)}}
"""
PLUGIN = """
    import gplasc
    from gplasc.settings.types import Settings

    class Added(gplasc.Plugin[Settings]):
        def loss(self, method_parts, parts, ctx):
            return {"added": FACTOR * method_parts["batch"].out.features.square().mean()}
"""
TINY = "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4"


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return str(path)


def run(stream, method, plugins=(), **more):
    settings = {"model.encoder": "small", "model.features": "signed", "train.lr": 0.05, "train.batch": 4}
    return gplasc.run(stream, method, plugins, scale="smoke", quiet=True, device="cpu", **settings, **more)


@pytest.mark.parametrize("name", ["mine.py", "a+b.py", "train.py", "data.py"])
def test_an_edited_method_is_another_run(name, tmp_path):
    path = tmp_path / name
    write(path, METHOD.format(alpha=1.0))
    first = run(TINY, str(path), out=tmp_path)
    assert run(TINY, str(path), out=tmp_path).run_id == first.run_id
    path.write_text(path.read_text() + "\n# a comment\n")
    assert run(TINY, str(path), out=tmp_path).run_id != first.run_id


ENCODER = """
    import torch
    from {module} import SIZE

    def build():
        made = torch.nn.Conv2d(3, SIZE, 3)
        made.load_state_dict(torch.load("weights.pt"))
        return made
"""


def test_an_edited_helper_or_other_weights_are_another_run(tmp_path, monkeypatch):
    """What a file imports from its own folder is loaded again and counts, and so do the weights of an encoder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "deep").mkdir(parents=True)
    method = write(
        tmp_path / "own" / "mine.py", "import factor_of_mine\n" + textwrap.dedent(METHOD.format(alpha=1.0))
    )
    encoder = write(tmp_path / "own" / "net.py", ENCODER.format(module="deep.sizes"))
    ids = set()
    for alpha, size, value in ((1, 2, 0.0), (2, 2, 0.0), (2, 3, 0.0), (2, 3, 1.0)):
        write(tmp_path / "own" / "factor_of_mine.py", f"from deep import sizes\nALPHA = {alpha}")
        write(tmp_path / "own" / "deep" / "__init__.py", "from . import sizes")
        write(tmp_path / "own" / "deep" / "sizes.py", f"SIZE = {size}")
        state = {"weight": torch.full((size, 3, 3, 3), value), "bias": torch.zeros(size)}
        torch.save(state, "weights.pt")
        more = {"model.encoder": f"{encoder}:build"}
        result = gplasc.run(TINY, method, scale="smoke", quiet=True, device="cpu", out=tmp_path, **more)
        assert result.load(device="cpu").network.feature_dim == size
        ids.add(result.run_id)
    assert len(ids) == 4


def test_settings_of_a_file_named_like_a_section_stand_beside_it(tmp_path):
    path = write(tmp_path / "train.py", METHOD.format(alpha=1.0))
    result = run(TINY, path, out=tmp_path, **{"train_.alpha": 2.0})
    assert result.record["settings"]["options"] == {"train_": {"alpha": 2.0}}
    assert result.record["settings"]["train"]["lr"] == 0.05


def test_an_edited_plugin_is_another_run_and_its_term_is_there(tmp_path):
    ids = set()
    for factor in ("0.1", "0.2"):
        path = write(tmp_path / "mine.py", PLUGIN.replace("FACTOR", factor))
        result = run(TINY, "er", [path, "gplasc"], out=tmp_path)
        assert '"added"' in (result.folder / "terms.jsonl").read_text()
        ids.add(result.run_id)
    assert len(ids) == 2


def test_other_data_is_another_run(tmp_path):
    path = tmp_path / "mine.npz"
    ids = []
    for value in (0, 0, 1):
        x = np.full((40, 8, 8, 1), 50 * value, dtype=np.uint8)
        x[:, 0, 0, 0] = np.arange(40) % 4
        np.savez(path, x=x, y=np.arange(40) % 4)
        ids.append(run(f"npz:{path}", "er", out=tmp_path).run_id)
    assert ids[0] == ids[1] != ids[2]


def test_another_stream_object_is_another_run(tmp_path):
    streams = [open_stream(f"{TINY},seed={seed}") for seed in (0, 0, 1)]
    for stream in streams:
        stream.name = "mine"
    ids = [run(stream, "er", out=tmp_path).run_id for stream in streams]
    assert ids[0] == ids[1] != ids[2]


def test_an_unfinished_run_of_another_version_is_named_and_not_continued(tmp_path, capsys):
    class Stop(gplasc.Callback):
        def on_task_end(self, learner):
            raise KeyboardInterrupt

    path = write(tmp_path / "mine.py", METHOD.format(alpha=1.0))
    with pytest.raises(KeyboardInterrupt):
        run(TINY, path, out=tmp_path / "runs", callbacks=[Stop()])
    write(tmp_path / "mine.py", METHOD.format(alpha=1.0) + "    # edited\n")
    settings = {"model.encoder": "small", "model.features": "signed", "train.lr": 0.05, "train.batch": 4}
    result = gplasc.run(TINY, path, scale="smoke", device="cpu", out=tmp_path / "runs", **settings)
    said = capsys.readouterr().err
    assert f"was begun with another version of {path}; it is not continued" in said
    assert result.record["steps"]


def test_a_checkpoint_of_another_version_of_the_library_is_refused(tmp_path, monkeypatch):
    class Stop(gplasc.Callback):
        def on_task_end(self, learner):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(TINY, "er", out=tmp_path, callbacks=[Stop()])
    monkeypatch.setattr(gplasc, "__version__", "9.9")
    with pytest.raises(
        UserError, match="was begun with another version of gplasc; start over with --restart"
    ):
        run(TINY, "er", out=tmp_path)


def test_the_state_of_a_finished_run_loads_without_pickled_code(tmp_path):
    result = run(TINY, "derpp", out=tmp_path)
    state = checkpoints.read_state(result.folder / "state.pt")
    assert isinstance(state["memory"]["columns"]["logits"], torch.Tensor)
