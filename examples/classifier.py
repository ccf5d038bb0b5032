"""A classifier that learns new classes without the images of earlier ones.

Run ``python examples/classifier.py``: seconds. It learns the digits 0 to 4, is saved and loaded,
and learns 5 to 9. Expect accuracies on test images of about 0.98 for the first five digits, and of
0.96 for all ten at the end.

The method ``slda`` trains nothing: it adds each class to the statistics of a fixed encoder, here
one with random weights, which is enough for digits of 8 px. For photographs take a pretrained
encoder, or a method that trains one.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gplasc import ContinualClassifier


def main():
    digits = load_digits()
    images = (digits.images * 15).astype("uint8")[..., None]  # N x H x W x C
    train_x, test_x, train_y, test_y = train_test_split(images, digits.target, random_state=0)
    first, first_test = train_y < 5, test_y < 5

    classifier = ContinualClassifier("slda", [], encoder="small", image_size=8, quiet=True)
    classifier.learn(train_x[first], train_y[first])
    print(f"0 to 4 learned: accuracy {classifier.score(test_x[first_test], test_y[first_test]):.2f}")

    with tempfile.TemporaryDirectory() as folder:
        classifier.save(Path(folder) / "state")
        classifier = ContinualClassifier.load(Path(folder) / "state", quiet=True)

    # New classes; the images of 0 to 4 are not needed again.
    classifier.learn(train_x[~first], train_y[~first])
    print(f"5 to 9 learned: accuracy {classifier.score(test_x, test_y):.2f} on all ten")

    probabilities = classifier.predict_proba(test_x[:1])[0]
    for row in probabilities.argsort()[::-1][:3]:
        print(f"  the first image is a {classifier.classes_[row]}: {probabilities[row]:.2f}")


if __name__ == "__main__":
    main()
