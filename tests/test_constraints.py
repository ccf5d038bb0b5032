"""constraints.txt pins what `make test` installs, and agrees with pyproject.toml."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# A build of torch with CUDA brings packages that only fit that build; constraints.txt leaves them to torch.
OF_CUDA = re.compile(r"nvidia-|cuda-|triton$")


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    given = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in given}


def declared(extra):
    """The requirements of the project with an extra; extras of extras are followed."""
    found = []
    for text in PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            found += [inner for name in sorted(requirement.extras) for inner in declared(name)]
        else:
            found.append(requirement)
    return found


def installed(requirements):
    """The names of the requirements and of everything installed that they require here."""
    seen, waiting = set(), list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        visit = (name, frozenset(requirement.extras))  # the same package again, with other extras
        if visit in seen or OF_CUDA.match(name):
            continue
        seen.add(visit)
        try:
            inner = [Requirement(text) for text in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:
            continue
        extras = [*requirement.extras, ""]
        waiting += [r for r in inner if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)]
    return {name for name, _ in seen}


def test_no_requirement_is_listed_twice():
    for extra in (None, *PROJECT["optional-dependencies"]):
        names = [canonicalize_name(requirement.name) for requirement in declared(extra)]
        assert len(names) == len(set(names))


def test_every_pin_is_one_version():
    for name, pin in pins().items():
        assert [s.operator for s in pin.specifier] == ["=="], name
        assert pin.marker is None, name


@pytest.mark.parametrize("requirement", [*declared(None), *declared("dev")], ids=str)
def test_a_requirement_is_pinned_inside_its_bounds(requirement):
    (pin,) = pins()[canonicalize_name(requirement.name)].specifier
    assert requirement.specifier.contains(pin.version)


def test_transitive_requirements_are_pinned():
    assert installed([*declared(None), *declared("dev")]) - set(pins()) == set()


def test_no_pin_is_left_over():
    wanted = installed([*declared(None), *declared("dev")])
    known = {canonicalize_name(found.name) for found in metadata.distributions()}
    assert {name for name in pins() if name not in wanted and name in known} == set()
