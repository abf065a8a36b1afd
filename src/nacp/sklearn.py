"""NoiseAwareClassifier: a scikit-learn classifier with prediction sets. Needs the extra ``nacp[sklearn]``."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline
    from sklearn.utils.metadata_routing import MetadataRequest
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise ImportError(
        'NoiseAwareClassifier needs scikit-learn 1.6 or later; pip install "nacp[sklearn]"'
    ) from None

from nacp._types import Array
from nacp.calibrate import ScoreLike, calibrate
from nacp.calibration import Calibration, NoValidThresholdWarning
from nacp.checks import check_fraction
from nacp.coverage.curve import Rule
from nacp.errors import InputError
from nacp.groups.grouped_calibration import GroupedCalibration
from nacp.guarantees import Guarantee
from nacp.noise import UNSAID, NoiseLike
from nacp.points import check_aligned
from nacp.sets import PredictionSets


def _has_probabilities(model: NoiseAwareClassifier) -> bool:
    return bool(getattr(model, "estimator_", model.estimator).predict_proba)


# scikit-learn comes without types: hence what is ignored here and at `predict_proba`.
class NoiseAwareClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that also predicts sets, calibrated on noisy labels.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier with ``predict_proba``. It is cloned and fitted by `fit`. A fitted
        classifier in a ``sklearn.frozen.FrozenEstimator`` is used as it is, and needs no `fit`.
    noise, alpha, guarantee, delta, crossing, random_state
        As in `nacp.calibrate`. `noise` is optional ("unsaid") if `conformalize` is given checked labels.
    conformity_score : str, score or callable, default="hps"
        The `score` of `nacp.calibrate`. scikit-learn reserves that name for a method of classifiers.
    by, simultaneous, small
        As in `nacp.calibrate`: ``by="class"`` finds a threshold for each class. Other groups are given to
        `conformalize`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : array of shape (k,)
        The class labels.
    calibration_ : Calibration or GroupedCalibration
        Made by `conformalize`.

    See Also
    --------
    nacp.calibrate : The same without scikit-learn.
    nacp.sklearn.SetSizeScorer : For `GridSearchCV`: the smallest sets that keep the promise.
    nacp.sklearn.conformalize, nacp.sklearn.predict_set : For a `Pipeline` that ends in this classifier.

    Examples
    --------
    >>> import nacp
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.7, random_state=0)
    >>> X_cal, X_test, y_cal, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
    >>> y_noisy = nacp.UniformNoise(0.2).sample(y_cal, k=10, random_state=0)
    >>> model = nacp.NoiseAwareClassifier(LogisticRegression(max_iter=5000), noise=0.2, guarantee="none")
    >>> sets = model.fit(X_train, y_train).conformalize(X_cal, y_noisy).predict_set(X_test)
    >>> bool(nacp.evaluate(sets, y_test).coverage > 0.85)
    True
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        noise: NoiseLike | str = UNSAID.value,
        alpha: float = 0.1,
        conformity_score: ScoreLike = "hps",
        guarantee: str | Guarantee | None = None,
        delta: float | None = None,
        crossing: Rule = "last",
        random_state: int | None = None,
        by: Literal["class"] | None = None,
        simultaneous: bool = False,
        small: Literal["error", "all", "merge"] = "error",
    ) -> None:
        self.estimator = estimator
        self.noise = noise
        self.alpha = alpha
        self.conformity_score = conformity_score
        self.guarantee = guarantee
        self.delta = delta
        self.crossing = crossing
        self.random_state = random_state
        self.by = by
        self.simultaneous = simultaneous
        self.small = small

    def fit(self, X: object, y: ArrayLike, **fit_params: object) -> NoiseAwareClassifier:
        """Fit the classifier; `fit_params` are passed to it.

        Parameters
        ----------
        X : array-like of shape (n, features)
            Training inputs.
        y : array-like of shape (n,)
            Training labels.

        Returns
        -------
        self
        """
        check_fraction("alpha", self.alpha)
        return self._keep(clone(self.estimator).fit(X, y, **fit_params))

    def _keep(self, fitted: Any) -> NoiseAwareClassifier:
        """Keep a fitted classifier and its learned attributes."""
        self.estimator_ = fitted
        self.classes_ = self.estimator_.classes_
        # Remove what an earlier fit learned.
        self.__dict__.pop("calibration_", None)
        for learned in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(learned, None)
            if hasattr(self.estimator_, learned):
                setattr(self, learned, getattr(self.estimator_, learned))
        return self

    def conformalize(
        self,
        X: object,
        y: ArrayLike | None,
        unlabelled: object = None,
        clean: object = None,
        *,
        groups: Any = None,
    ) -> NoiseAwareClassifier:
        """Calibrate on inputs that the classifier was not fitted on, and their noisy labels.

        Parameters
        ----------
        X : array-like of shape (n, features)
            Calibration inputs.
        y, clean, groups
            As in `calibrate`: noisy labels, or None; checked labels; groups of inputs or of classes.
        unlabelled : array-like of shape (m, features), optional
            Further inputs, without labels, which make the sets of "binomial" smaller.

        Returns
        -------
        self
        """
        check_fraction("alpha", self.alpha)
        check_aligned(y, X, "X", "y")
        check_aligned(groups, X, "X")
        check_aligned(clean, X, "X", "clean")
        check_aligned(clean, y, "y", "clean")
        self._be_fitted()
        if not hasattr(self.estimator_, "predict_proba"):
            raise InputError(
                "estimator",
                f"has no predict_proba: it is a {type(self.estimator_).__name__}",
                remedy="wrap it in sklearn.calibration.CalibratedClassifierCV",
            )
        self.calibration_: Calibration | GroupedCalibration = calibrate(
            self.predict_proba(X),
            None if y is None else np.asarray(y),
            noise=UNSAID if isinstance(self.noise, str) and self.noise == UNSAID.value else self.noise,
            clean=clean,
            alpha=self.alpha,
            score=self.conformity_score,
            guarantee=self.guarantee,
            delta=self.delta,
            crossing=self.crossing,
            random_state=self.random_state,
            classes=self.classes_,
            unlabelled=None if unlabelled is None else self.predict_proba(unlabelled),
            groups=groups,
            by=self.by,
            simultaneous=self.simultaneous,
            small=self.small,
        )
        return self

    def predict_set(self, X: object, *, groups: Any = None, allow_empty: bool = True) -> PredictionSets:
        """Return the prediction sets of new inputs.

        Parameters
        ----------
        X : array-like of shape (m, features)
            Inputs.
        groups : array-like of shape (m,), optional
            The group of each, if `conformalize` was given groups of inputs.
        allow_empty : bool, default=True
            ``False`` puts the most probable label into every set that would be empty.

        Returns
        -------
        PredictionSets
        """
        check_is_fitted(
            self, "calibration_", msg="call conformalize(X, y) with calibration data before predict_set(X)"
        )
        cal, probs = self.calibration_, self.predict_proba(X)
        check_aligned(groups, X, "X")
        if isinstance(cal, GroupedCalibration):
            return cal.predict_set(probs, groups=groups, allow_empty=allow_empty)
        if groups is not None:
            raise InputError("groups", "has no effect: conformalize was given none")
        return cal.predict_set(probs, allow_empty=allow_empty)

    def predict(self, X: object) -> Array:
        """Return the classifier's own predictions for inputs of shape (m, features)."""
        self._be_fitted()
        return np.asarray(self.estimator_.predict(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> Array:
        """Return the classifier's own probabilities for inputs of shape (m, features)."""
        self._be_fitted()
        return np.asarray(self.estimator_.predict_proba(X))

    def _be_fitted(self) -> None:
        """Check that the classifier is fitted; a frozen one needs no fit."""
        if not hasattr(self, "estimator_") and isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator.estimator)
            self._keep(self.estimator)
        check_is_fitted(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


def conformalize(model: Any, X: object, y: ArrayLike | None, **options: Any) -> Any:
    """Calibrate a `NoiseAwareClassifier`, or a pipeline that ends in one, on inputs and their noisy labels.

    The arguments are those of `nacp.NoiseAwareClassifier.conformalize`, and the inputs those of the fitted
    pipeline, which is returned.

    Examples
    --------
    >>> import nacp
    >>> from nacp.sklearn import conformalize, predict_set
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), nacp.NoiseAwareClassifier(LogisticRegression(), noise=0.2))
    >>> noisy = nacp.UniformNoise(0.2).sample(y[600:1200], k=10, random_state=0)
    >>> model = conformalize(model.fit(X[:600], y[:600]), X[600:1200], noisy)
    >>> len(predict_set(model, X[1200:]))
    597
    """
    last, inside = _last_step(model, X)
    if options.get("unlabelled") is not None:
        options["unlabelled"] = _last_step(model, options["unlabelled"])[1]
    last.conformalize(inside, y, **options)
    return model


def predict_set(model: Any, X: object, **options: Any) -> PredictionSets:
    """Return the prediction sets of a `NoiseAwareClassifier`, or of a pipeline that ends in one.

    The arguments are those of `nacp.NoiseAwareClassifier.predict_set`; for an example see `conformalize`.
    """
    last, inside = _last_step(model, X)
    return last.predict_set(inside, **options)


def _last_step(model: Any, X: object) -> tuple[NoiseAwareClassifier, object]:
    """Return the classifier at the end of a pipeline, and its inputs."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, NoiseAwareClassifier):
        problem = "must be a NoiseAwareClassifier, or a pipeline that ends in one"
        raise InputError("model", problem, found=type(last).__name__)
    return last, model[:-1].transform(X) if last is not model and len(model) > 1 else X


class SetSizeScorer:
    """A scorer for scikit-learn's searches: minus the mean size of the sets that keep the promise of a model.

    Each model is calibrated on the points that it is scored on, with its own noise model, alpha and
    guarantee. The mean set size needs no true labels. Only models with the same alpha and guarantee can be
    compared. With metadata routing, the scorer accepts `clean`, the checked labels of the points (-1 if not
    checked), and passes them to `conformalize`.

    Examples
    --------
    >>> import nacp
    >>> from nacp.sklearn import SetSizeScorer
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> noisy = nacp.UniformNoise(0.2).sample(y, k=10, random_state=0)
    >>> model = nacp.NoiseAwareClassifier(GaussianNB(), noise=0.2)
    >>> search = GridSearchCV(model, {"estimator__var_smoothing": [1e-9, 0.1]}, scoring=SetSizeScorer(), cv=3)
    >>> search.fit(X / 16, noisy).best_params_
    {'estimator__var_smoothing': 0.1}
    """

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that scikit-learn may pass to the scorer: `clean`."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="clean", alias=True)
        return request

    def __call__(self, model: Any, X: object, y: ArrayLike, *, clean: object = None) -> float:
        """Return minus the mean set size; `model` itself is not calibrated."""
        last, inside = _last_step(model, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoValidThresholdWarning)  # then sets hold all labels
            trial = copy(last).conformalize(inside, y, clean=clean)
        return -float(trial.predict_set(inside).sizes.mean())
