import json
import warnings

import pytest
import torch

from gplasc._io.display import Display
from gplasc.errors import UserError
from gplasc.learning import Callback, Learner, checkpoints
from gplasc.learning.callbacks.signals import StopSignals
from gplasc.learning.callbacks.terms import NotFinite
from gplasc.learning.schedule import steps_per_task
from gplasc.runs.execute import execute
from gplasc.runs.workspace import Workspace
from gplasc.settings.components import list_methods
from gplasc.streams import open_stream


def compute(resolved, out, *, save_steps=None, keep_memory=True, **more):
    workspace = Workspace(out, device="cpu", save_steps=save_steps, keep_memory=keep_memory)
    return execute(resolved, workspace, display=Display(), **more)


def test_record_is_complete_and_plain_json(tiny, tmp_path):
    result = compute(tiny("co2l", ("gplasc",)), tmp_path)
    record = json.loads((result.folder / "record.json").read_text())
    assert record == {k: v for k, v in result.record.to_dict().items() if k != "metrics"}
    record = result.record
    assert record["run_id"] == result.folder.name
    for scenario in ("class_il", "task_il"):
        matrix = record["matrix"][scenario]
        assert [[value is None for value in row] for row in matrix] == [
            [False, True, True],
            [False, False, True],
            [False, False, False],
        ]
        mean = sum(matrix[-1]) / 3
        assert record["metrics"][scenario]["final_accuracy"] == pytest.approx(mean)
    assert all(
        t >= c for t, c in zip(record["matrix"]["task_il"][-1], record["matrix"]["class_il"][-1], strict=True)
    )
    assert len(record["geometry"]) == len(record["timings"]) == 3
    assert set(record["timings"][0]) == {"train", "predictor", "memory", "evaluation"}
    assert record["geometry"][-1]["etf_cosine"] == pytest.approx(-0.5)
    assert record["memory"]["rows"] == 9
    assert record["sources"]["buffer"] == "given"
    assert (result.folder / "weights.safetensors").exists()
    assert not list(result.folder.glob("checkpoint-*")), "a finished run needs no checkpoint"


def test_a_complete_run_is_not_computed_again(tiny, tmp_path, monkeypatch):
    first = compute(tiny(), tmp_path)
    monkeypatch.setattr(Learner, "learn", lambda self, stream: pytest.fail("learned again"))
    assert compute(tiny(), tmp_path).record == first.record


def test_the_terms_of_every_step_are_logged(tiny, tmp_path):
    result = compute(tiny("co2l", ("gplasc",)), tmp_path)
    rows = [json.loads(line) for line in (result.folder / "terms.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, result.record["steps"] + 1))
    assert {"supcon", "range", "position", "distill"} < set(rows[0])
    assert "ird" not in rows[0]
    assert "ird" in rows[-1]


class Stop(Exception):
    """The run has come as far as the test wants it."""


class StopAt(Callback):
    """Stops after a step, or when a task is trained or complete."""

    def __init__(self, *, step=None, trained=None, complete=None):
        self.step, self.trained, self.complete = step, trained, complete

    def on_step_end(self, learner):
        if learner.position.total_steps == self.step:
            raise Stop

    def on_task_trained(self, learner):
        if learner.position.task == self.trained:
            raise Stop

    def on_task_end(self, learner):
        if learner.position.task == self.complete:
            raise Stop


@pytest.mark.parametrize(
    ("method", "optimizer"),
    [("co2l", "sgd"), ("icarl", "sgd"), ("ncm", "sgd"), ("gem", "adamw"), ("cclis", "adamw")],
)
def test_state_through_a_file_continues_bit_for_bit(method, optimizer, tiny, tmp_path, new_learner):
    """At every kind of stop, also after the last task; tests/test_conformance.py resumes every method."""
    resolved = tiny(method, ("gplasc",), **{"train.lr": 0.05, "train.optimizer": optimizer})
    whole = new_learner(resolved)
    whole.learn(whole.stream)
    stops = [{"step": 1}, {"step": 5}, {"step": 8}] if whole.method.trains else []
    stops += [{"trained": 1}, {"complete": 2}, {"trained": 2}, {"complete": 3}]
    for number, where in enumerate(stops):
        first = new_learner(resolved, StopAt(**where))
        with pytest.raises(Stop):
            first.learn(first.stream)
        checkpoints.save(tmp_path, number, first.state_dict())
        state, damaged = checkpoints.load_newest(tmp_path)
        assert not damaged
        second = new_learner(resolved)
        second.load_state_dict(state)
        second.learn(second.stream)
        for mine, its in (
            (second.ctx.modules, whole.ctx.modules),
            (second.ctx.predictor, whole.ctx.predictor),
        ):
            for name, value in its.state_dict().items():
                other = mine.state_dict()[name]
                assert torch.equal(other, value) if isinstance(value, torch.Tensor) else other == value, name
        assert second.class_il == whole.class_il
        assert torch.equal(second.ctx.memory["x"], whole.ctx.memory["x"]) if len(whole.ctx.memory) else True


@pytest.mark.parametrize("method", list_methods())
def test_the_initial_weights_of_a_pair_are_equal(method, tiny, new_learner):
    """A plug-in draws its weights from generators of its own, whatever heads it adds."""
    alone = new_learner(tiny(method)).ctx.modules.state_dict()
    together = new_learner(tiny(method, ("gplasc",))).ctx.modules.state_dict()
    assert set(alone) <= set(together)
    for name, value in alone.items():
        assert torch.equal(value, together[name]), name


@pytest.mark.parametrize("method", ["co2l", "cclis", "er", "icarl", "derpp", "fdr", "gcr"])
def test_a_finished_run_keeps_what_is_needed_to_predict_and_to_go_on(method, tiny, tmp_path):
    from safetensors.torch import load_file

    result = compute(tiny(method, **{"train.lr": 0.05}), tmp_path)
    assert any(name.startswith("predictor.") for name in load_file(result.folder / "weights.safetensors"))
    state = checkpoints.read_state(result.folder / "state.pt")
    assert len(state["memory"]["columns"]["y"]) == result.record["memory"]["rows"]
    assert result.record["stream"]["class_names"]
    assert len(result.record["stream"]["mean"]) == 1
    other = compute(tiny(method, seed=1, **{"train.lr": 0.05}), tmp_path, keep_memory=False)
    assert not (other.folder / "state.pt").exists()


@pytest.mark.parametrize(
    ("optimizer", "names"), [("sgd", ["momentum_buffer"]), ("adamw", ["exp_avg", "exp_avg_sq"])]
)
def test_heads_grow_for_classes_that_were_not_announced(optimizer, names, tiny, new_learner):
    """New outputs are added behind the present ones, which keep weights and the optimizer's state."""
    settings = {"train.lr": 0.05, "train.momentum": 0.9, "train.optimizer": optimizer}
    learner = new_learner(tiny("er", **settings), StopAt(complete=1), announced=False)
    with pytest.raises(Stop):
        learner.learn(learner.stream)
    weight = learner.ctx.network.classifier.weight
    state = {name: learner.optimizer.state[weight][name].clone() for name in names}
    steps = learner.optimizer.state[weight].get("step")
    before = weight.detach().clone()
    assert len(before) == 2
    learner.enter(learner.stream[1])
    grown = learner.ctx.network.classifier.weight
    assert torch.equal(grown[:2], before)
    assert len(grown) == 4
    for name, value in state.items():
        assert value.any()
        assert torch.equal(learner.optimizer.state[grown][name][:2], value)
        assert not learner.optimizer.state[grown][name][2:].any()
    assert learner.optimizer.state[grown].get("step") == steps
    assert any(p is grown for group in learner.optimizer.param_groups for p in group["params"])


def test_a_term_name_that_two_components_return_is_an_error(tiny, new_learner, monkeypatch):
    learner = new_learner(tiny("er", ("gplasc",)))
    monkeypatch.setattr(
        learner.method, "loss", lambda parts, ctx: {"position": parts["batch"].out.logits.sum()}
    )
    with pytest.raises(UserError, match="ER and GPLASCPlugin both return a term named 'position'"):
        learner.learn(learner.stream)


def test_a_users_callback_is_called(tmp_path):
    import gplasc

    heard = []

    class Mine(gplasc.Callback):
        def on_task_begin(self, learner):
            heard.append(("begin", learner.ctx.task.index))

        def on_log(self, learner, rows):
            heard.append(("log", [row["step"] for row in rows]))

        def on_task_trained(self, learner):
            heard.append(("trained", learner.position.task))

        def on_task_end(self, learner):
            heard.append(("end", len(learner.class_il[-1])))

    stream = "synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4"
    result = gplasc.run(stream, "er", scale="smoke", out=tmp_path, quiet=True, callbacks=[Mine()])
    assert [name for name, _ in heard if name != "log"] == ["begin", "trained", "end"] * 2
    steps = [step for name, rows in heard if name == "log" for step in rows]
    assert steps == list(range(1, result.record["steps"] + 1))
    assert heard[-1] == ("end", 2)


def test_a_damaged_checkpoint_is_passed_over(tiny, tmp_path):
    for number in (1, 2, 3):
        checkpoints.save(tmp_path, number, {"value": number})
    paths = sorted(tmp_path.glob("checkpoint-*.pt"))
    assert len(paths) == 2
    data = bytearray(paths[-1].read_bytes())
    data[len(data) // 2] ^= 1
    paths[-1].write_bytes(data)
    state, damaged = checkpoints.load_newest(tmp_path)
    assert state == {"value": 2}
    assert damaged == [paths[-1]]
    paths[0].write_bytes(b"")
    assert checkpoints.load_newest(tmp_path) == (None, [paths[1], paths[0]])


def test_a_term_that_is_not_finite_stops_the_run_by_name(tiny, tmp_path):
    resolved = tiny(
        "co2l",
        **{"train.lr": 1e30, "train.warmup_epochs": 0, "train.epochs": 40, "train.schedule": "constant"},
    )
    with pytest.raises(NotFinite, match=r"the term 'supcon' is \S+ at task \d, epoch \d+, step \d+"):
        compute(resolved, tmp_path)
    assert not list(tmp_path.glob("*/record.json"))


def test_a_folder_that_cannot_be_made_is_a_sentence(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        compute(tiny(), tmp_path / "file")


def test_the_plug_in_leaves_the_methods_randomness_alone(tiny, new_learner):
    """Same batches, same augmentation: a pair with and without the plug-in differs in the plug-in alone."""
    seen = []
    for plugins in ((), ("gplasc",)):
        learner = new_learner(tiny("co2l", plugins))
        original = learner.method.parts
        batches = []

        def parts(batch, ctx, original=original, batches=batches):
            made = original(batch, ctx)
            batches.append(made["batch"].x.clone())
            return made

        learner.method.parts = parts
        learner.learn(learner.stream)
        seen.append(batches)
    assert len(seen[0]) == len(seen[1])
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


def test_previous_model_is_run_once_a_step_whoever_asks(tiny, new_learner):
    learner = new_learner(tiny("co2l", ("gplasc",)))
    calls = []
    original = learner.keep_previous

    def keep():
        original()
        learner.ctx.previous["network"].encoder.register_forward_hook(lambda *_: calls.append(1))

    learner.keep_previous = keep
    learner.learn(learner.stream)
    sizes = [len(task.train) for task in learner.stream]
    assert len(calls) == sum(steps_per_task(learner.config, "mixed", sizes)[1:])


def test_evaluation_may_use_a_validation_split(tiny, tmp_path):
    result = compute(tiny(**{"data.validation": 0.5, "data.evaluate_on": "validation"}), tmp_path)
    assert result.record["stream"]["train_samples"] == result.record["stream"]["test_samples"]


def test_dry_run_writes_nothing(tiny, tmp_path, monkeypatch):
    from gplasc.runs.cost import measure_cost

    monkeypatch.chdir(tmp_path)
    _, text = measure_cost(tiny("cclis", ("gplasc",)), device="cpu")
    for word in ("steps", "parameters", "memory", "disk", "time"):
        assert f"\n{word}" in text
    assert not list(tmp_path.iterdir())


def test_published_probe_trains_like_the_cached_one(tiny, new_learner):
    accuracy = {}
    for mode in ("cached", "published"):
        resolved = tiny(
            "supcon", **{"probe.mode": mode, "probe.epochs": 30, "train.epochs": 8, "train.first_epochs": 8}
        )
        learner = new_learner(resolved)
        learner.learn(learner.stream[:1])
        assert isinstance(learner.ctx.predictor, torch.nn.Linear)
        accuracy[mode] = learner.class_il[-1][0]
    assert abs(accuracy["cached"] - accuracy["published"]) <= 50.0
    assert min(accuracy.values()) >= 50.0


def test_signals_outside_the_main_thread_are_left_alone():
    import threading

    signals = StopSignals(save=lambda learner: None)
    errors = []

    def work():
        try:
            with signals.installed():
                pass
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors


def test_the_record_of_a_stream_object_has_no_settings_that_did_not_build_it(tmp_path):
    """The preset of 8 images a class is not used; and what is published is not of such a stream."""
    import gplasc

    stream = open_stream("synthetic:tasks=2,classes=2,size=8,channels=1,train=12,test=4")
    more = {"scale": "smoke", "out": tmp_path, "quiet": True, "device": "cpu", "model.encoder": "small"}
    record = gplasc.run(stream, "finetune", **more).record
    assert record.stream.train_samples == [24, 24]
    assert record.flat["data.images_per_class"] is record.flat["data.test_images_per_class"] is None
    assert "data.images_per_class" in record.changed
    named = gplasc.run(stream.name, "finetune", **more).record
    assert (named.flat["data.images_per_class"], named.stream.train_samples) == (8, [16, 16])
    with pytest.raises(UserError, match=r"data\.images_per_class does not change a stream that is an object"):
        gplasc.run(stream, "finetune", **more, images_per_class=3)


def test_a_stream_object_can_be_run(tmp_path):
    import gplasc

    stream = open_stream("synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"model.encoder": "small", "device": "cpu"}
        result = gplasc.run(stream, "co2l", "gplasc", scale="smoke", out=tmp_path, quiet=True, **settings)
    assert len(result.record["matrix"]["class_il"]) == 2
    assert result.metric() == result.record["metrics"]["class_il"]["final_accuracy"]
