"""scikit-learn's conventions: which of its estimator checks pass, and why the others do not apply."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from gplasc import ContinualClassifier

from .conftest import arrays

SPARSE = "sparse matrices and objects are refused in a sentence of its own"
NOT_APPLICABLE = {
    "check_no_attributes_set_in_init": "settings have names of their own (**settings); they are kept in one attribute",
    "check_dtype_object": SPARSE,
    "check_estimator_sparse_tag": SPARSE,
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
    "check_classifier_data_not_an_array": SPARSE,
    "check_supervised_y_2d": "one label for each image, not rows of labels",
    "check_fit2d_predict1d": SPARSE,
    "check_requires_y_none": "a folder and an iterable of pairs have no y: the sentence says what to give",
}


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
    with pytest.raises(NotFittedError, match="nothing was learned yet"):
        clone(classifier).predict(arrays(0)[0])


def test_fit_begins_anew_and_partial_fit_does_not(new):
    classifier = new()
    assert classifier.fit(*arrays(0, 1)) is classifier
    assert classifier.partial_fit(*arrays(2)).classes_.tolist() == [0, 1, 2]
    assert classifier.fit(*arrays(3, 1)).classes_.tolist() == [1, 3]
    assert len(classifier.tasks_) == 1


def test_works_with_cross_validation(new):
    from sklearn.model_selection import cross_val_score

    scores = cross_val_score(new("slda"), *arrays(0, 1, 2, count=12), cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.9


def test_probability_scorers_agree_with_predictions(new):
    """They take column k for the k-th of the sorted labels."""
    names = np.array(["wren", "auk", "ibis", "kite"])
    x, y = arrays(0, 1, 2, 3, count=12)
    for method in ("ncm", "er"):
        classifier = new(method).learn(x[24:], names[y[24:]]).learn(x[:24], names[y[:24]])
        assert classifier.classes_.tolist() == sorted(names)
        assert [record.new_classes for record in classifier.tasks_] == [("ibis", "kite"), ("wren", "auk")]
        assert (
            classifier.predict_proba(x).argmax(1) == np.searchsorted(sorted(names), classifier.predict(x))
        ).all()
    classifier = new("ncm").learn(x[24:], names[y[24:]]).learn(x[:24], names[y[:24]])
    assert get_scorer("neg_log_loss")(classifier, x, names[y]) > -0.3
    assert get_scorer("roc_auc_ovr")(classifier, x, names[y]) > 0.99


@pytest.mark.filterwarnings("ignore")
def test_estimator_checks():
    """On features, which the checks have: every check passes, or is in the list of those that do not apply."""
    results = check_estimator(ContinualClassifier(device="cpu", quiet=True), on_fail=None, on_skip=None)
    failed = {
        entry["check_name"]: str(entry["exception"]) for entry in results if entry["status"] == "failed"
    }
    assert set(failed) == set(NOT_APPLICABLE), failed
    assert sum(entry["status"] == "passed" for entry in results) >= 40
