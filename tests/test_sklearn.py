"""NoiseAwareClassifier is a scikit-learn classifier, alone and inside scikit-learn's own tools."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import nacp
from nacp.sklearn import SetSizeScorer, conformalize, predict_set

K = 4
X, Y = make_classification(
    n_samples=900, n_features=8, n_informative=6, n_classes=K, class_sep=1.5, random_state=0
)
TRAIN, CAL, TEST = slice(0, 300), slice(300, 600), slice(600, 900)
NOISE = nacp.UniformNoise(0.2)
NOISY = NOISE.sample(Y[CAL], K, random_state=0)
NAMES = np.array(["ant", "bee", "cat", "dog"])


def aware(estimator=None, **options):
    estimator = LogisticRegression() if estimator is None else estimator
    return nacp.NoiseAwareClassifier(estimator, **{"noise": NOISE, "guarantee": "none"} | options)


@pytest.fixture(scope="module")
def model():
    return aware().fit(X[TRAIN], Y[TRAIN]).conformalize(X[CAL], NOISY)


@pytest.mark.slow
@parametrize_with_checks([nacp.NoiseAwareClassifier(LogisticRegression(), noise=0.1)])
def test_it_keeps_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_checked_labels_go_to_calibrate_as_they_are():
    probs = LogisticRegression().fit(X[TRAIN], Y[TRAIN]).predict_proba(X)
    rows = np.arange(0, len(NOISY), 3)
    clean = (rows, Y[CAL][rows])
    model = aware(guarantee="pac").fit(X[TRAIN], Y[TRAIN]).conformalize(X[CAL], NOISY, clean=clean)
    cal = nacp.calibrate(probs[CAL], NOISY, clean=clean, noise=NOISE)
    assert model.calibration_.threshold == cal.threshold
    assert model.calibration_.checked == len(rows)
    # Nothing need be said of the noise then, labels may have names, and the noisy ones may be left out.
    unsaid = nacp.NoiseAwareClassifier(LogisticRegression()).fit(X[TRAIN], NAMES[Y[TRAIN]])
    partly = np.full(len(NOISY), None, dtype=object)
    partly[rows] = NAMES[Y[CAL][rows]]
    for y in (NOISY, None):
        alone = nacp.calibrate(probs[CAL], y, clean=clean)
        names = None if y is None else NAMES[y]
        found = clone(unsaid).fit(X[TRAIN], NAMES[Y[TRAIN]]).conformalize(X[CAL], names, clean=partly)
        assert found.calibration_.threshold == alone.threshold
    with pytest.raises(nacp.InputError, match="noise can be left out only where some labels were checked"):
        unsaid.conformalize(X[CAL], NAMES[NOISY])


# The parameter may not be called `score`: that is the method by which scikit-learn rates a classifier.
SCORE = next(name for name in aware().get_params(deep=False) if "score" in name)
OPTIONS = [
    {"alpha": 0.3},
    {"score": "aps"},
    {"score": nacp.RAPS(free=1)},
    {"guarantee": "nacp", "delta": 0.1, "alpha": 0.3},
    {"guarantee": nacp.CRCP(), "alpha": 0.4},
    {"crossing": "first"},
    {"noise": None, "guarantee": None},
    {"noise": NOISE.matrix(K).dense()},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_every_option_is_passed_on_to_calibrate(options):
    own_names = {SCORE if name == "score" else name: value for name, value in options.items()}
    model = aware(**own_names).fit(X[TRAIN], Y[TRAIN]).conformalize(X[CAL], NOISY)
    given = {"noise": NOISE, "guarantee": "none"} | options
    assert model.calibration_ == nacp.calibrate(model.predict_proba(X[CAL]), NOISY, classes=range(K), **given)


def test_labels_may_be_strings(model):
    named = aware().fit(X[TRAIN], NAMES[Y[TRAIN]]).conformalize(X[CAL], NAMES[NOISY].tolist())
    assert named.calibration_.threshold == model.calibration_.threshold
    assert named.predict(X[TEST]).tolist() == NAMES[model.predict(X[TEST])].tolist()
    sets, plain = named.predict_set(X[TEST]), model.predict_set(X[TEST])
    assert sets.to_lists() == [NAMES[row].tolist() for row in plain.to_lists()]
    assert nacp.evaluate(sets, NAMES[Y[TEST]]) == nacp.evaluate(plain, Y[TEST])
    with pytest.raises(ValueError, match="labels holds 'elk', which is not in classes"):
        named.conformalize(X[CAL], np.where(NOISY == 0, "elk", NAMES[NOISY]))
    with pytest.raises(ValueError, match="labels holds the number"):
        named.conformalize(X[CAL], NOISY)


def test_it_may_be_the_last_step_of_a_pipeline():
    pipeline = Pipeline([("scale", StandardScaler()), ("classify", aware())]).fit(X[TRAIN], Y[TRAIN])
    scaled = pipeline[:-1].transform
    assert conformalize(pipeline, X[CAL], NOISY) is pipeline
    alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(pipeline.predict(X[TEST]), alone.predict(X[TEST]))
    sets = predict_set(pipeline, X[TEST], allow_empty=False)
    assert sets.to_lists() == pipeline[-1].predict_set(scaled(X[TEST]), allow_empty=False).to_lists()
    assert sets.contains(Y[TEST]).mean() > 0.5
    binomial = pipeline[-1].set_params(guarantee="binomial")
    conformalize(pipeline, X[CAL], NOISY, unlabelled=X[TEST])
    cal = nacp.calibrate(
        alone.predict_proba(X[CAL]),
        NOISY,
        noise=NOISE,
        guarantee="binomial",
        classes=range(K),
        unlabelled=alone.predict_proba(X[TEST]),
    )
    assert binomial.calibration_.threshold == cal.threshold
    with pytest.raises(nacp.InputError, match="model must be a NoiseAwareClassifier, or a pipeline"):
        predict_set(alone, X[TEST])


def test_a_search_for_the_smallest_sets_finds_them():
    """Each fold is scored by the sets that its own noisy labels calibrate."""
    noisy = NOISE.sample(Y, K, random_state=1)
    pipeline = make_pipeline(StandardScaler(), aware(guarantee="pac", alpha=0.2))
    grid, folds = {"noiseawareclassifier__estimator__C": [1e-4, 1.0]}, KFold(3)
    search = GridSearchCV(pipeline, grid, scoring=SetSizeScorer(), cv=folds).fit(X, noisy)
    assert search.best_params_ == {"noiseawareclassifier__estimator__C": 1.0}
    assert not hasattr(search.best_estimator_[-1], "calibration_")
    sizes = []
    for train, test in folds.split(X):
        alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], noisy[train])
        cal = nacp.calibrate(alone.predict_proba(X[test]), noisy[test], noise=NOISE, alpha=0.2)
        sizes.append(cal.predict_set(alone.predict_proba(X[test])).sizes.mean())
    assert search.best_score_ == pytest.approx(-np.mean(sizes))


def test_checked_labels_are_routed_to_the_scorer():
    noisy, clean = NOISE.sample(Y, K, random_state=1), np.where(np.arange(900) % 3, -1, Y)
    model = nacp.NoiseAwareClassifier(LogisticRegression(), alpha=0.2)  # of which no noise is known
    with config_context(enable_metadata_routing=True):
        found = cross_validate(model, X, noisy, params={"clean": clean}, scoring=SetSizeScorer(), cv=KFold(3))
    for (train, test), score in zip(KFold(3).split(X), found["test_score"], strict=True):
        alone = LogisticRegression().fit(X[train], noisy[train])
        probs = alone.predict_proba(X[test])
        cal = nacp.calibrate(probs, noisy[test], clean=clean[test], alpha=0.2)
        assert score == pytest.approx(-cal.predict_set(probs).sizes.mean())


def test_sets_need_a_calibration_and_say_so():
    fitted = aware().fit(X[TRAIN], Y[TRAIN])
    again = aware().fit(X[TRAIN], Y[TRAIN]).conformalize(X[CAL], NOISY).fit(X[TEST], Y[TEST])
    assert not hasattr(again, "calibration_"), "a second fit drops the calibration of the first"
    for model in (fitted, again):
        with pytest.raises(NotFittedError, match=r"conformalize\(X, y\).*before predict_set"):
            model.predict_set(X[TEST])
    for method in ("predict", "predict_proba", "predict_set"):
        with pytest.raises(NotFittedError):
            getattr(aware(), method)(X[TEST])
    with pytest.raises(NotFittedError):
        aware().conformalize(X[CAL], NOISY)


def test_what_cannot_be_calibrated_is_refused():
    model = aware(LinearSVC()).fit(X[TRAIN], Y[TRAIN])
    assert not hasattr(model, "predict_proba")
    said = "estimator has no predict_proba: it is a LinearSVC; wrap it in"
    with pytest.raises(nacp.InputError, match=said):
        model.conformalize(X[CAL], NOISY)
    several = aware(alpha=[0.1, 0.2])
    for work, data in ((several.fit, (X[TRAIN], Y[TRAIN])), (several.conformalize, (X[CAL], NOISY))):
        with pytest.raises(nacp.InputError, match="alpha must lie strictly between 0 and 1"):
            work(*data)
    assert not hasattr(several, "estimator_")


def test_a_frozen_classifier_needs_no_fit():
    inner = LogisticRegression(max_iter=5000).fit(X[TRAIN], Y[TRAIN])
    model = aware(FrozenEstimator(inner))
    assert np.array_equal(model.predict_proba(X[TEST]), inner.predict_proba(X[TEST]))
    sets = model.conformalize(X[CAL], NOISY).predict_set(X[TEST])
    fitted = aware(FrozenEstimator(inner)).fit(X[TRAIN], Y[TRAIN]).conformalize(X[CAL], NOISY)
    assert sets.to_lists() == fitted.predict_set(X[TEST]).to_lists()
    with pytest.raises(NotFittedError, match="LogisticRegression"):
        aware(FrozenEstimator(LogisticRegression())).predict(X[TEST])


def test_without_scikit_learn_there_is_one_sentence():
    code = (
        "import sys; sys.modules['sklearn'] = None; import nacp\n"
        "try:\n    nacp.NoiseAwareClassifier\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == 'NoiseAwareClassifier needs scikit-learn 1.6 or later; pip install "nacp[sklearn]"\n'


def test_groups_get_the_thresholds_and_sets_of_calibrate():
    probs = LogisticRegression().fit(X[TRAIN], Y[TRAIN]).predict_proba(X)
    where = np.array(["north", "south", "south"] * 300)
    fitted = aware(FrozenEstimator(LogisticRegression().fit(X[TRAIN], NAMES[Y[TRAIN]])))
    fitted.conformalize(X[CAL], NAMES[NOISY], groups=where[CAL])
    cal = nacp.calibrate(
        probs[CAL], NAMES[NOISY], noise=NOISE, guarantee="none", groups=where[CAL], classes=NAMES
    )
    assert fitted.calibration_.thresholds == cal.thresholds
    wanted = cal.predict_set(probs[TEST], groups=where[TEST]).to_lists()
    assert fitted.predict_set(X[TEST], groups=where[TEST]).to_lists() == wanted
    kinds = {"ant": "insect", "bee": "insect", "cat": "pet", "dog": "pet"}
    fitted.conformalize(X[CAL], NAMES[NOISY], groups=kinds)
    cal = nacp.calibrate(probs[CAL], NAMES[NOISY], noise=NOISE, guarantee="none", groups=kinds, classes=NAMES)
    assert fitted.predict_set(X[TEST]).to_lists() == cal.predict_set(probs[TEST]).to_lists()
    by_class = clone(fitted).set_params(by="class").conformalize(X[CAL], NAMES[NOISY])
    assert list(by_class.calibration_.thresholds) == NAMES.tolist()
    with pytest.raises(nacp.errors.InputError, match="by says what the groups are"):
        by_class.conformalize(X[CAL], NAMES[NOISY], groups=kinds)
