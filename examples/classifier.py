"""A classifier that learns new classes without the images of earlier ones.

Run ``python examples/classifier.py``: seconds. It learns the digits 0 to 4, is saved and loaded, learns 5 to 8, refuses
a month with shuffled labels, and forgets a class. Expect an accuracy of about 0.97 on test images of all nine digits.

Here the features are the pixels. With photographs leave that out: ``classifier.learn("month1")`` computes the features
of the images in ``month1/CLASS/IMAGE.jpg`` with a pretrained encoder.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gplasc import ContinualClassifier
from gplasc.classifier import Refused


def main():
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(digits.data, digits.target, random_state=0)
    first, later, last = train_y < 5, (train_y >= 5) & (train_y < 9), train_y == 9
    seen = test_y < 9

    classifier = ContinualClassifier(quiet=True).learn(train_x[first], train_y[first])
    print(f"0 to 4 learned: accuracy {classifier.score(test_x[test_y < 5], test_y[test_y < 5]):.2f}")

    with tempfile.TemporaryDirectory() as folder:
        classifier.save(Path(folder) / "state")
        classifier = ContinualClassifier.load(Path(folder) / "state", quiet=True)

    # New classes; the features of 0 to 4 are in the state.
    classifier.learn(train_x[later], train_y[later], min_accuracy=0.5)
    print(classifier.tasks_[-1])
    print(f"5 to 8 learned: accuracy {classifier.score(test_x[seen], test_y[seen]):.2f} on all nine")

    wrong = np.random.default_rng(0).integers(5, 9, last.sum())
    try:
        classifier.learn(train_x[last], wrong, min_accuracy=0.5)
    except Refused as error:
        print(error)

    unknown = classifier.is_unknown(test_x)
    print(
        f"unknown: {unknown[seen].mean():.0%} of the known digits, {unknown[~seen].mean():.0%} of the nines"
    )
    print(f"classes without 3: {classifier.forget(3).classes_}")


if __name__ == "__main__":
    main()
