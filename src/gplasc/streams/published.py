"""Files as their publishers give them out: where they are and their checksums (MD5, as published)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PublishedFile:
    """One file: its name, the folder it belongs into, where it can be had (tried in this order), its MD5."""

    name: str
    urls: tuple[str, ...]
    md5: str
    folder: str = ""


_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_HENDRYCKS = "https://people.eecs.berkeley.edu/~hendrycks/"


def _idx(bases: tuple[str, ...], folder: str, sums: dict[str, str]) -> tuple[PublishedFile, ...]:
    return tuple(
        PublishedFile(name, tuple(base + name for base in bases), md5, folder) for name, md5 in sums.items()
    )


FILES: dict[str, tuple[PublishedFile, ...]] = {
    "seq-mnist": _idx(
        _MNIST,
        "mnist",
        {
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "seq-fashion": _idx(
        _FASHION,
        "fashion-mnist",
        {
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "seq-cifar10": (
        PublishedFile(
            "cifar-10-python.tar.gz", (f"{_CIFAR}cifar-10-python.tar.gz",), "c58f30108f718f92721af3b95e74349a"
        ),
    ),
    "seq-cifar100": (
        PublishedFile(
            "cifar-100-python.tar.gz",
            (f"{_CIFAR}cifar-100-python.tar.gz",),
            "eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
    "seq-tinyimagenet": (
        PublishedFile(
            "tiny-imagenet-200.zip",
            ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
            "90528d7ca1a48142e341f4ef8d21d0de",
        ),
    ),
    "cub200": (
        PublishedFile(
            "CUB_200_2011.tgz",
            ("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",),
            "97eceeb196236b17998738112f37df78",
        ),
    ),
    "imagenet-r": (
        PublishedFile("imagenet-r.tar", (f"{_HENDRYCKS}imagenet-r.tar",), "a61312130a589d0ca1a8fca1f2bd3337"),
    ),
    "imagenet-a": (
        PublishedFile("imagenet-a.tar", (f"{_HENDRYCKS}imagenet-a.tar",), "c3e55429088dc681f30d81f4726b6595"),
    ),
}

# Other published files whose checksums are known: archives that are not the ones downloaded, and files
# inside.
KNOWN: dict[str, dict[str, str]] = {
    "seq-cifar10": {
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    "seq-cifar100": {
        "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
}


def known_checksums(name: str) -> dict[str, str]:
    """Return file name -> MD5 of everything that is known of a data set."""
    return {file.name: file.md5 for file in FILES.get(name, ())} | KNOWN.get(name, {})


def md5_of(path: Path) -> str:
    """Return the MD5 of a file, as hexadecimal digits. It guards against damage, not against malice."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
