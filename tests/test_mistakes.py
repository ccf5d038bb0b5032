"""Every mistake of a user ends in one sentence that says what was given and what is allowed, never in a traceback."""

import json
import os
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.calling import call

import gplasc
from gplasc._io.display import Live, Moment
from gplasc._io.files import write_atomic
from gplasc.errors import UserError
from gplasc.runs.result import Result
from gplasc.streams import open_stream

STREAM = "synthetic:tasks=2,classes=2,size=8,channels=1,train=3,test=2"
TINY = ["--stream", STREAM, "--scale", "smoke", "--buffer", "4", "--quiet", "--json", "--device", "cpu"]
RUN = ["run", *TINY, "--set", "model.encoder=small", "--set", "train.epochs=1", "--out", "out"]
API = {"scale": "smoke", "buffer": 4, "quiet": True, "device": "cpu", "train.epochs": 1}
API |= {"model.encoder": "small"}

OWN = """
from gplasc.methods.supcon import ContrastiveMethod, ContrastiveSettings

class Mine(ContrastiveMethod):
    class Settings(ContrastiveSettings):
        {setting}
    def loss(self, parts, ctx):
        return {result}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPLASC_CACHE", str(tmp_path / "cache"))
    return tmp_path


def file(name: str, content: str | bytes) -> str:
    write_atomic(Path(name), content)
    return name


def own(
    setting: str = "strength: float = 1.0", result: str = "{'ce': parts['batch'].out.features.sum()}"
) -> str:
    return OWN.format(setting=setting, result=result)


def mine(base: str, body: str = "pass") -> str:
    return f"import gplasc\nclass Mine(gplasc.{base}):\n    {body}"


FILES = {
    "deep.toml": "a = " + "[" * 20_000,
    "method.toml": "method = 3",
    "nested.toml": "[train.lr.x]\ny=1",
    "plugins.toml": 'plugins = "gplas"',
    "scale.toml": 'scale = "fast"',
    "section.toml": "train = 3",
    "stream.toml": "stream = [3]",
    "table.toml": "[method]\na=1",
    "binary.py": b"\xff\xfe\x00",
    "ends.py": "raise SystemExit(0)",
    "imports.py": "import nothing_at_all",
    "number.py": own(result="{'ce': 3}"),
    "raises.py": own(result="{'ce': [][1]}"),
    "lossless.py": mine("Method"),
    "old_method.py": mine("Method", "def loss(self, parts, outs, ctx): pass"),
    "old_parts.py": mine("Plugin", "def parts(self, batch, own, ctx): return []"),
    "old_plugin.py": mine("Plugin", "def loss(self, own, outs, mine, my_outs, ctx): pass"),
    "tensor.py": own(result="parts['batch'].out.features.sum()"),
    "unset.py": own(setting="strength: float"),
    "deep/run/record.json": "[" * 100_000,
    "empty/run/record.json": "{}",
    "list/run/record.json": "[]",
    "taken": "",
}


def unreadable(name: str) -> str:
    """A path that cannot be read, also by the superuser: a link to itself."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).symlink_to(Path(name).name)
    return name


def write_npz() -> None:
    """Write npz files with faults, called as the fault."""
    x, y = np.zeros((8, 8, 8), np.uint8), np.arange(8) % 4
    np.savez("whole.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    whole = Path("whole.npz").read_bytes()
    Path("text.npz").write_text("these are not the arrays you are looking for\n")
    start = whole.index(b"\x93NUMPY")
    Path("header.npz").write_bytes(whole[: start + 10] + b"(" * 30 + whole[start + 40 :])
    for fault, offset, value in (("encrypted", 6, 1), ("compression", 8, 97)):
        content = bytearray(whole)
        with zipfile.ZipFile("whole.npz") as archive:
            places = [info.header_offset + offset for info in archive.infolist()]
        directory = content.index(b"PK\x01\x02")
        while content[directory : directory + 4] == b"PK\x01\x02":
            places.append(directory + offset + 2)
            directory += 46 + sum(struct.unpack_from("<3H", content, directory + 28))
        for place in places:
            struct.pack_into("<H", content, place, value)
        Path(f"{fault}.npz").write_bytes(content)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("files"))
        for name, content in FILES.items():
            file(name, content)
        for name in ("loop.toml", "loop/run/record.json", "images"):
            unreadable(name)
        write_npz()
    return folder


@pytest.fixture
def files(written):
    shutil.copytree(written, ".", symlinks=True, dirs_exist_ok=True)


DEEP = "[" * 20_000
# RUN is a run that works, RUN-OPTION the same without that option, TINY its options about stream and size.
SAID = {
    "RUN --plugin gplasc --plugin gplasc": "named twice",
    "RUN --stream seq-digits": "--stream specified multiple times",
    "RUN-device --device cuda:77": "'cuda:77'",
    "RUN-device --device toaster": "'toaster'",
    "RUN --threads -3": "--threads is -3",
    "tune TINY --threads 0": "--threads was given as 0",
    "RUN --save-every nan": "every nan seconds",
    "RUN --save-steps 0": "0 steps: give 0 seconds, 1 step or more",
    "sweep TINY --workers 0 --grid train.lr=1": "--workers",
    "reproduce digits --workers 0": "--workers was given as 0",
    "RUN --frozen --set encoder_lr=0.5": "--frozen and --set encoder_lr=0.5",
    "RUN --encoder resnet18": "--encoder and --set model.encoder",
    "RUN --set model.encoder=vit": "there is no encoder 'vit'",
    "report empty -o .": "no complete run",
    "report empty": "no complete run",
    "report list": "no complete run",
    "report deep": "no complete run",
    "report loop": "no complete run",
    "report nowhere": "there is no folder nowhere",
    "run --config plugins.toml --quiet": "there is no plug-in 'gplas'",
    "run --config scale.toml": "scale is 'fast'",
    "run --config method.toml": "method is 3",
    "run --config stream.toml": "[3]",
    "run --config section.toml": "train",
    "run --config nested.toml": "train.lr",
    "run --config table.toml": "method",
    "run --config deep.toml": "cannot be read as TOML",
    "RUN --set data.jitter=6": "data.jitter was given as 6",
    "RUN-stream --stream folder:~nobody-here/img": "no home folder in the place of ~",
    f"RUN --set train.lr={DEEP}": "train.lr",
    "run --config loop.toml": "cannot be read",
    "run --config .": "cannot be read",
    "RUN --method cclis --set train.batch=1": "train.batch is 1",  # one row for task and memory
    "RUN --method finetune --set train.batch=5 --set model.encoder=resnet18 --set model.width=4": "train.batch is 5",
    "RUN --set train.schedule=multistep": "train.milestones is empty",
    "RUN --method tensor.py": "Mine.loss returned a Tensor",
    "RUN --method lossless.py": "Mine has no loss; override `loss`",
    "RUN --method old_method.py": "write `def loss(self, parts, ctx)`",
    "RUN --plugin old_plugin.py": "write `def loss(self, method_parts, parts, ctx)`",
    "check old_method.py": "write `def loss(self, parts, ctx)`",
    "check old_plugin.py": "write `def loss(self, method_parts, parts, ctx)`",
    "RUN --plugin old_parts.py": "Mine.parts returned a list; it must return its parts by name",
    "RUN --method raises.py": "raises.py, line 8, raised IndexError: list index out of range; correct the file",
    "RUN --method number.py": "number.py returned; `gplasc check",
    "RUN-buffer --buffer 1000000000000": "no room for a buffer of 1,000,000,000,000 samples",
    "RUN-buffer --buffer 10000000000000000000": "no room for a buffer",
    "RUN --method \x1b[31mred\u202e.py": "the method file \\x1b[31mred\\u202e.py does not exist",
    "RUN --method unset.py": "the setting unset.strength has no default",
    "check unset.py": "the setting unset.strength has no default",
    "RUN --method imports.py": "imports.py",
    "RUN --method ends.py": "ends.py cannot be imported: SystemExit",
    "RUN --method binary.py": "binary.py",
    "RUN-stream --stream npz:text.npz": "is not an npz file",
    "RUN-stream --stream npz:header.npz": "cannot be read",
    "RUN-stream --stream npz:encrypted.npz": "password",
    "RUN-stream --stream npz:compression.npz": "cannot be read",
    "RUN-stream --stream folder:images": "images",
    "RUN --set train.learning_rate=1": "did you mean 'train.lr'?",
    "RUN --set config.seed=1": "there is no setting 'config.seed'",
    "RUN --set seed=1": "--seed",
    "RUN --set train.lr=fast": "the setting train.lr was given as 'fast'",
    "RUN --set train.lr=inf": "train.lr was given as inf",
    "RUN-out --out taken": "taken",
    "RUN --method coco2l": "did you mean 'co2l'",
    "RUN-stream --stream seq-cifar11": "seq-cifar10",
    "RUN --plugin gplas": "did you mean 'gplasc'",
    "RUN --set train.lr=-1": "greater than 0",
    "RUN --set nonsense": "name=value",
    "RUN --method ./nowhere.py": "does not exist",
    "RUN-stream --stream folder:/nowhere": "/nowhere",
    "run --config /nowhere.toml": "does not exist",
    "data path": "needs the name of a stream",
    "data path nothing": "nothing",
    "reproduce nothing": "nothing",
}


def _without(words: list[str], option: str) -> list[str]:
    place = words.index(option)
    return words[:place] + words[place + (1 if option in ("--json", "--quiet") else 2) :]


def expanded(words: str) -> list[str]:
    short = {f"RUN-{name}": _without(RUN, f"--{name}") for name in ("buffer", "device", "stream", "out")}
    short |= {"RUN": RUN, "TINY": _without(TINY, "--json")}
    return [part for word in words.split() for part in short.get(word, [word])]


@pytest.mark.parametrize("words", SAID, ids=lambda words: words[:60])
def test_one_sentence_and_exit_code_2(words, files, capsys):
    assert call(*expanded(words)) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err + printed.out
    lines = [line for line in printed.err.splitlines() if not line.startswith("skipped: ")]
    assert len(lines) == 1, printed.err
    assert lines[0].startswith("gplasc: ")
    assert SAID[words] in lines[0]
    assert len(lines[0]) < 600, "a sentence, not a page"


REFUSED = {
    "": "no command was given; `gplasc --help` lists them",
    "frobnicate": 'Unknown command "frobnicate"',
    "rnu": 'Did you mean "run"?',
    "--nothing": 'Unknown command "--nothing"',
    "run --sed 3": "Unknown option: --sed. Did you mean --seed?",
    "run --dryrun": "Did you mean --dry-run?",
    "run --train.lr 3": "It is a setting: write --set train.lr=VALUE",
    "run --momentum=3": "It is a setting: write --set train.momentum=VALUE",
    "run --margin 3": "A setting is given with --set NAME=VALUE",
    "list --methods er": "Unknown option: --methods. Allowed: --json",
    "run --seed x": 'Invalid value for --seed: unable to convert "x" into int',
    "run --save-every fast": 'Invalid value for --save-every: unable to convert "fast" into float',
    "sweep --seeds 1 b": 'Invalid value for --seeds: unable to convert "b" into int',
    "run --scale tiny": 'Invalid value "tiny" for --scale. Choose from: "paper", "cpu", "smoke"',
    "run --seed None --scale smok": 'Did you mean "smoke"?',
    "data x": 'Invalid value "x" for ACTION. Choose from: "list", "path"',
    "run --stream": "--stream requires an argument",
    "run --out --quiet": "--out requires an argument",
    "run --quiet=3": "--quiet",
    "run foo": "`gplasc run` does not take 'foo'",
    "show -- co2l er": "`gplasc show` does not take 'er'",
    "learn a": "FOLDER requires an argument",
    "features --out x": "--stream requires an argument",
    "report a -o b --out c": "--out specified multiple times",
    "run --save-every None": "--save-every",
    "run --no-quiet": "Unknown option: --no-quiet",
}


@pytest.mark.parametrize("words", REFUSED)
def test_the_parser_refuses_in_one_sentence(words, capsys):
    assert call(*words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gplasc: ")
    assert REFUSED[words] in line
    assert len(line) < 500


def test_a_device_that_is_not_there_is_not_among_those_named(capsys):
    assert call(*_without(RUN, "--device"), "--device", "cuda:77") == 2
    named = capsys.readouterr().err.rpartition("this machine has: ")[2]
    assert "cpu" in named
    assert "cuda:77" not in named
    if not torch.cuda.is_available():
        assert "cuda" not in named


def run(method: object = "er", plugins: object = (), **more: object):
    return gplasc.run(STREAM, method, plugins, **{"out": "out"} | API | more)


CALLS = {
    "scale": (lambda: run(scale="tiny"), "scale is 'tiny'; allowed"),
    "plugins": (lambda: run(plugins=None), "plugins is None; give a list"),
    "a plug-in": (lambda: run(plugins=[3]), "the plug-in 3 is not a name"),
    "method": (lambda: run(None), "method is None; give a name"),
    "buffer": (lambda: run(buffer=-1), "buffer was given as -1"),
    "seed": (lambda: run(seed="x"), "seed was given as 'x'"),
    "out": (lambda: run(out=None), "out is None; give the path"),
    "device": (lambda: run(device=[]), "this machine has: cpu"),
    "encoder": (lambda: run(encoder="x"), "there is no encoder 'x'"),
    "callbacks": (lambda: run(callbacks=[3]), "give a list of gplasc.Callback"),
    "a setting": (lambda: run(marginn=1), "there is no setting 'marginn'"),
    "metric": (
        lambda: run("finetune").metric("accuracy"),
        "there is no metric 'accuracy'; allowed: final_accuracy",
    ),
    "scenario": (
        lambda: run("finetune").metric(scenario="x"),
        "there is no scenario 'x'; allowed: class_il",
    ),
    "a path": (lambda: open_stream(Path("nowhere")), "nowhere does not exist; write folder:PATH"),
    "no stream": (lambda: open_stream(None), "NoneType was given; write for example"),
    "classes": (lambda: open_stream("seq-digits", classes_per_task="x"), "classes_per_task is 'x'; it must"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_python_api_raises_one_sentence(name):
    make, said = CALLS[name]
    with pytest.raises(UserError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_with_markup_are_printed_as_they_are(capsys, monkeypatch):
    method = file("a[b].py", own())
    words = [*_without(_without(RUN, "--json"), "--out"), "--out", "x[/b]", "--method", method]
    assert call(*words) == 0
    assert "x[/b]" in capsys.readouterr().out.replace("\n", "")
    monkeypatch.setenv("TERM", "xterm")
    live = Live()
    live.show(Moment("a[/b]", 0, 1, 0, 1, 1, 2, 3.0, 4.0, {"x[/c]": 1.0}))
    live.phase("probe[/d]")
    live._progress.refresh()
    live.say("y[/e]")
    live.close()
    assert "y[/e]" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["er", "supcon"])
def test_a_batch_of_one_works_where_it_can(method, capsys):
    assert call(*RUN, "--method", method, "--set", "train.batch=1") == 0


def test_plugins_as_text_in_toml(capsys):
    assert call("show", "--config", file("a.toml", 'plugins = "gplasc"'), "--toml") == 0
    assert 'plugins = [\n    "gplasc",\n]' in capsys.readouterr().out


def test_records_that_are_none_are_skipped_by_the_report(capsys):
    run("finetune")
    for name, content in {"a": "{}", "b": "[]", "c": "", "d": '{"format": 2}'}.items():
        file(f"out/{name}/record.json", content)
    assert call("report", "out", "-o", "page.html") == 0
    assert capsys.readouterr().err.count("skipped: ") == 4
    assert "finetune" in Path("page.html").read_text()


def test_a_copied_record_of_another_run_is_refused(capsys):
    first, second = run("finetune"), run("finetune", seed=1)
    shutil.copy(first.folder / "record.json", second.folder / "record.json")
    said = f"is the record of the run {first.run_id}, a copy; delete it to run again"
    with pytest.raises(UserError, match=said):
        run("finetune", seed=1)
    with pytest.raises(UserError, match=said):
        Result.read(second.folder).load()
    assert call("report", "out") == 0
    assert said in capsys.readouterr().err
    shutil.copytree(first.folder, "kept")  # under a name of one's own
    assert Result.read(Path("kept")).load().record.run_id == first.run_id


def test_a_complete_record_that_cannot_be_read_is_not_to_be_deleted():
    """What cannot be read for lack of permission may be whole."""
    folder = run("finetune").folder
    (folder / "record.json").unlink()
    unreadable(str(folder / "record.json"))
    with pytest.raises(UserError, match="check its permissions"):
        run("finetune")


def test_the_last_resort_is_one_sentence_with_the_place_of_the_trace(capsys, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("nobody thought of this\nand it has two lines")

    monkeypatch.setattr("gplasc.runs.spec.RunRequest.resolve", broken)
    assert call(*RUN) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("gplasc: unexpected ZeroDivisionError: nobody thought of this")
    trace = Path(lines[0].partition("the trace is in ")[2].partition(";")[0])
    assert "Traceback" in trace.read_text()
    trace.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_standard_output_is_not_a_success():
    words = [sys.executable, "-m", "gplasc", "list", "--json"]
    import subprocess

    with open("/dev/full", "w") as full:  # noqa: PTH123
        found = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=os.environ
        )
    assert found.returncode != 0
    assert "Traceback" not in found.stderr
    assert "No space left" in found.stderr


def test_json_of_the_tiny_run_is_a_record(capsys):
    """The base of the cases above is a run that works."""
    assert call(*RUN) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["run_id"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--set", "margin=0.2"], "one of the plug-in gplasc, which is not here; it needs --plugin gplasc"),
        (["--set", "epochs=3"], "train.epochs or probe.epochs"),
        (["--set", "buffer_size=3"], "--buffer"),
        (["--class-order", "3"], "--set data.class_order=VALUE"),
        (
            ["--set", "class_order=[0,0]"],
            "class_order is (0, 0); list numbers from 0 to 3, each at most once",
        ),
        (["--set", "plugin=gplasc"], "plugins= in Python"),
    ],
)
def test_hints_name_what_was_meant(words, answer, capsys):
    assert call(*RUN, "--method", "er", *words) == 2
    assert answer in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ({"margin": 0.2}, r"it needs --plugin gplasc \(plugins=\['gplasc'\] in Python\)"),
        ({"plugin": "gplasc"}, "plugins= in Python"),
        ({"buffer_size": 3}, "buffer= in Python"),
        ({"epochs": 3}, r"train.epochs or probe.epochs"),
    ],
)
def test_hints_are_the_same_in_python(settings, answer):
    for make in (
        run,
        lambda **more: gplasc.compare(STREAM, ["er"], **{"scale": "smoke", "out": "out"}, **more),
    ):
        with pytest.raises(UserError, match=answer):
            make(**settings)


def test_plugins_that_do_nothing_are_said(capsys):
    words = [*_without(RUN, "--quiet"), "--set", "model.features=signed"]
    assert call(*words, "--method", "ncm", "--plugin", "gplasc") == 0
    assert "ncm+gplasc is ncm alone, which trains nothing: plug-ins do nothing" in capsys.readouterr().err
    assert call(*words, "--method", "finetune", "--plugin", "gplasc") == 0
    assert "do nothing" not in capsys.readouterr().err


def test_messages_name_the_python_argument_where_python_users_see_them():
    with pytest.raises(UserError, match=r"data_dir= in Python"):
        gplasc.run("seq-cifar10", "er", out="out")
    with pytest.raises(UserError, match=r'\*\*\{"unset.strength": VALUE\}'):
        run(file("unset.py", own(setting="strength: float")))
    with pytest.raises(UserError, match=r"cannot be written .* or out="):
        run(out=file("taken", ""))


def test_classes_come_in_the_order_that_is_given(capsys):
    assert call(*RUN, "--method", "finetune", "--set", "data.class_order=[3,0,2,1]") == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["stream"]["class_names"] == [f"pattern {n}" for n in (3, 0, 2, 1)]
    plain = run("finetune")
    assert plain.run_id != record["run_id"]
    assert "data.class_order" not in plain.record.flat, "run ids and records without an order stay"


def test_a_run_is_told_from_a_classifier(capsys):
    folder = run("finetune").folder
    for place in (folder, "out"):
        assert call("predict", place, file("x.png", "")) == 2
        assert (
            f"{place} holds a run, not a classifier; gplasc.Result.read(FOLDER).load()"
            in capsys.readouterr().err
        )


def test_show_one_setting(capsys):
    assert call("show", "train.lr", "--method", "er", "--stream", "seq-cifar10", "--scale", "paper") == 0
    assert capsys.readouterr().out.startswith("train.lr = 0.1  (Mammoth")


def test_a_torch_dataset_is_pointed_to_from_dataset():
    with pytest.raises(UserError, match="from_dataset"):
        gplasc.run(torch.utils.data.TensorDataset(torch.zeros(3, 1, 8, 8)), "er")


def test_dir_shows_public_names():
    assert dir(gplasc) == sorted(gplasc.__all__)


def test_missing_files_name_every_folder_that_is_read(capsys):
    assert call("run", "--stream", "seq-cifar10", "--method", "er") == 2
    message = capsys.readouterr().err
    assert "cifar-10-batches-py" in message
    assert "cifar-10-batches-bin" in message
