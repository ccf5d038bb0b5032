"""Command lines as people mistype them."""

from __future__ import annotations

from random import Random

_TINY = "synthetic:tasks=2,classes=2,size=8,channels=1,train=2,test=2"
_RUN = ["--scale", "smoke", "--quiet", "--out", "runs", "--set", "model.encoder=small"]
_TEXT = (
    "", " ", "-1", "0", "1", "2", "0.5", "nan", "inf", "-inf", "1e400", "99999999999999999999", "none",
    "None", "true", "x", "x[/b]", "[bold]", "ü", "\udce9", "\x1b[31m", "../..", "/dev/null", "/nowhere",
    ".", "~", "~nobody/x", "[1,2]", "[", "{}", "{", "'", '"', "=", "a=b", "a=", "=b", "--", "-", "-h", "%s",
    "{0}", "$HOME", "a" * 5000, "a\nb", "seq-digits", "co2l", "er", "gplasc", "folder:", "npz:", "folder:.",
    "npz:/dev/null", "folder:/dev", "npz:.", "synthetic", "synthetic:", "synthetic:tasks=0",
    "synthetic:tasks=x", "synthetic:classes=-1", "synthetic:size=1", "synthetic:tasks",
    "synthetic:tasks=2,tasks=3", "synthetic:tasks=99999999999", "./mine.py", "nowhere.py", "/",
    "/proc/self/mem", "co2l.py",
)  # fmt: skip
_OPTIONS = (
    "--stream", "--method", "--plugin", "--buffer", "--seed", "--scale", "--config", "--set", "--out",
    "--data-dir", "--device", "--threads", "--save-every", "--save-steps", "--skip-corrupt", "--json",
    "--quiet", "--forget-memory", "--dry-run", "--restart", "--tensorboard", "--nothing", "--grid",
    "--seeds", "--workers", "--only", "--methods", "--title", "--tables", "--figures", "-o", "--toml",
    "--help",
)  # fmt: skip
_NAMES = (
    "train.lr", "train.batch", "train.momentum", "train.weight_decay", "train.schedule", "train.milestones",
    "train.precision", "train.warmup_epochs", "train.lr_decay", "probe.mode", "probe.lr",
    "probe.milestones", "probe.views", "model.encoder", "model.width", "model.features",
    "model.projection_dim", "data.classes_per_task", "data.class_order_seed", "data.images_per_class",
    "data.image_size", "data.validation", "data.evaluate_on", "data.crop_scale", "data.flip", "data.jitter",
    "data.padding", "co2l.temperature", "temperature", "margin", "lr", "seed", "config.seed", "options", "",
)  # fmt: skip
_SMALL = (
    "-1", "0", "1", "2", "3", "0.5", "nan", "inf", "-inf", "1e400", "none", "true", "x", "[1,2]", "[]",
    "{}", "[", "'a'", "", "multistep", "validation", "published", "signed", "bfloat16", "small",
)  # fmt: skip


def draw(random: Random) -> list[str]:
    """Return the words of one command line; none of them trains for long or downloads anything."""
    return random.choice((_settings, _settings, _settings, _options, _options, _other))(random)


def _settings(random: Random) -> list[str]:
    words = ["run", "--stream", _TINY, *_RUN, "--buffer", random.choice(("0", "1", "4"))]
    words += ["--method", random.choice(("co2l", "er", "gss", "icarl", "cclis", "gcr", "fdr"))]
    for _ in range(random.choice((1, 1, 2))):
        words += ["--set", f"{random.choice(_NAMES)}={random.choice(_SMALL)}"]
    return words + (["--plugin", "gplasc"] if random.random() < 0.3 else [])


def _options(random: Random) -> list[str]:
    command = random.choice(("run", "sweep", "show", "reproduce", "report", "data", "list", "check"))
    start = {
        "run": ["run", "--dry-run"],
        "sweep": ["sweep", "--dry-run"],
        "reproduce": ["reproduce", random.choice(("digits", *_TEXT)), "--dry-run"],
        "report": ["report", random.choice(_TEXT)],
        "data": ["data", random.choice(("list", "path", "path", "x")), random.choice(_TEXT)],
        "check": ["check", random.choice([word for word in _TEXT if word not in ("co2l", "er", "gplasc")])],
    }.get(command, [command])
    for _ in range(random.choice((0, 1, 1, 2))):
        option = random.choice(_OPTIONS)
        if option != "--dry-run":
            start += [option, *([random.choice(_TEXT)] if random.random() < 0.8 else [])]
    return start


def _other(random: Random) -> list[str]:
    return [random.choice((*_TEXT, *_OPTIONS, "show")) for _ in range(random.choice((0, 1, 2)))] or [""]
