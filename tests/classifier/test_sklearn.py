"""scikit-learn's conventions: which of its estimator checks pass, and why the others do not apply."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

from gplasc import ContinualClassifier

from .conftest import arrays

OTHER_SIZES = "images of another size are resized, not refused"
REPEATED = "gives one row two labels, which is refused: the same image cannot have two classes"
NOT_APPLICABLE = {
    "check_no_attributes_set_in_init": "settings have names of their own (**settings); they are kept in one attribute",
    "check_estimators_unfitted": "the error is a ValueError and an AttributeError, but not NotFittedError: importing "
    "scikit-learn would take longer than loading a classifier",
    "check_n_features_in_after_fitting": OTHER_SIZES,
    "check_estimators_partial_fit_n_features": OTHER_SIZES,
    "check_classifiers_train": OTHER_SIZES,
    "check_classifiers_classes": "classes_ is in the order of learning, so that columns keep their place; not sorted",
    "check_classifiers_regression_target": "the sentence about labels that are no classes has words of its own",
    "check_fit_idempotent": REPEATED,
    "check_fit_check_is_fitted": REPEATED,
    "check_n_features_in": REPEATED,
}


class Rows(ContinualClassifier):
    """Rows of numbers as images of one row of pixels: the checks have no images to give."""

    def fit(self, X, y=None):  # noqa: N803
        X, y = check_X_y(X, y)  # noqa: N806
        self.n_features_in_ = X.shape[1]
        return super().fit(pixels(X), y)

    def learn(self, X, y=None):  # noqa: N803
        X, y = check_X_y(X, y)  # noqa: N806
        self.n_features_in_ = X.shape[1]
        return super().learn(pixels(X), y)

    def iterate_probabilities(self, X):  # noqa: N803
        return super().iterate_probabilities(pixels(check_array(X)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def pixels(rows: np.ndarray) -> np.ndarray:
    return np.clip(rows * 20 + 128, 0, 255).astype(np.uint8)[:, None, :, None]


def test_parameters_round_trip(new):
    classifier = new("er", margin=0.2)
    params = classifier.get_params()
    assert params["method"] == "er"
    assert params["margin"] == 0.2
    again = clone(classifier)
    assert again.get_params() == params
    assert again is not classifier
    assert again.set_params(buffer=7, margin=0.3).get_params() == {**params, "buffer": 7, "margin": 0.3}


def test_clone_forgets(new):
    classifier = new().learn(*arrays(0, 1))
    check_is_fitted(classifier)
    assert is_classifier(classifier)
    with pytest.raises(ValueError, match="nothing was learned yet"):
        clone(classifier).predict(arrays(0)[0])


def test_fit_begins_anew_and_partial_fit_does_not(new):
    classifier = new()
    assert classifier.fit(*arrays(0, 1)) is classifier
    assert classifier.partial_fit(*arrays(2)).classes_.tolist() == [0, 1, 2]
    assert classifier.fit(*arrays(3, 1)).classes_.tolist() == [3, 1]
    assert len(classifier.tasks_) == 1


def test_works_with_cross_validation(new):
    from sklearn.model_selection import cross_val_score

    scores = cross_val_score(new("slda"), *arrays(0, 1, 2, count=12), cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.9


@pytest.mark.filterwarnings("ignore")
def test_estimator_checks():
    """Every check passes, or stands in the list of those that do not apply and indeed fails."""
    classifier = Rows("ncm", (), encoder="small", device="cpu", scale="smoke", quiet=True)
    found = check_estimator(classifier, on_fail=None, on_skip=None)
    failed = {entry["check_name"] for entry in found if entry["status"] == "failed"}
    assert failed == set(NOT_APPLICABLE)
    assert sum(entry["status"] == "passed" for entry in found) >= 40
