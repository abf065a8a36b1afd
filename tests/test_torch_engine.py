"""The torch engine: the same bits as NumPy's, on a device, from which nothing large is copied to the host.

No machine that tests has a GPU, so the device is made here: tensors that say that they are elsewhere, refuse
to be mixed with tensors of the host, and to be copied there as large as a block or as rows of the matrix.
"""

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.engine import ByEntry, ByLabel, Spec, traced
from nacp.engine.contract import Whole
from nacp.stats.betting import Bets
from nacp.tuning import tuned

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from test_native import KINDS, SCORES, answers, some_rows  # noqa: E402  (skips without the compiled engine)
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

DEVICE = torch.device("lazy")  # of which this PyTorch knows no more than the name


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# A device


class Away(torch.Tensor):
    """A tensor on the device. What is done to it is done to a tensor of the host that it hides."""

    @staticmethod
    def __new__(cls, hidden):
        made = torch.Tensor._make_wrapper_subclass(
            cls, hidden.shape, dtype=hidden.dtype, device=DEVICE, strides=hidden.stride(),
            storage_offset=hidden.storage_offset(), requires_grad=hidden.requires_grad,
        )  # fmt: skip
        made.hidden = hidden.detach()
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} outside of the device")


class Device(TorchDispatchMode):
    """While it is on, tensors can be made on the device, and are watched there.

    Nothing with `most` entries or more is copied to the host, nor anything with `k` columns.
    """

    def __init__(self, most, k):
        super().__init__()
        self.most, self.k, self.syncs, self.largest = most, k, 0, 0

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # to skip it takes seconds to import it

    def put(self, values, requires_grad=False):
        return Away(torch.as_tensor(values).clone().requires_grad_(requires_grad))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        target, found = kwargs.get("device"), []
        mapped(lambda each: found.append(each) if isinstance(each, torch.Tensor) else None, [args, kwargs])
        away = any(isinstance(each, Away) for each in found)
        name = function.overloadpacket.__name__
        if away and name == "_local_scalar_dense":
            self.syncs += 1
        if away and name != "_to_copy":
            mixed = [each for each in found if not isinstance(each, Away) and each.ndim]
            assert not mixed, f"{name} of tensors on two devices"
        if target is not None:
            kwargs["device"] = torch.device("cpu")
            if away and target.type == "cpu":
                self.syncs += 1
                (source,) = found
                self.largest = max(self.largest, source.numel())
                assert source.numel() < self.most, f"{tuple(source.shape)} entries are copied to the host"
                rows = source.ndim == 2 and source.shape[1] == self.k
                assert not (rows and source.is_floating_point()), "rows are copied to the host"
        done = function(*mapped(hidden, args), **mapped(hidden, kwargs))
        if target.type == "cpu" if target is not None else not away:
            return done
        if isinstance(done, torch.Tensor) and name.endswith("_") and not name.startswith("_"):
            return args[0]  # in place
        return mapped(lambda each: Away(each) if isinstance(each, torch.Tensor) else each, done)


def mapped(function, tree):
    if isinstance(tree, dict):
        return {key: mapped(function, each) for key, each in tree.items()}
    return [mapped(function, each) for each in tree] if isinstance(tree, list | tuple) else function(tree)


def hidden(each):
    return each.hidden if isinstance(each, Away) else each


N, K, BLOCK = 1200, 120, 1 << 17  # entries of a block: more than a tally has cells


@pytest.fixture
def device():
    with tuned(block_entries=BLOCK // 4), Device(BLOCK, K) as made:
        yield made


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    probs = some_rows("plain", N, K, np.float32, rng)
    truth = (probs.cumsum(axis=1) > rng.random((N, 1)) * probs.sum(axis=1, keepdims=True)).argmax(axis=1)
    matrix = nacp.MatrixNoise(0.75 * np.eye(K) + 0.25 * rng.dirichlet(np.full(K, 0.5), K))
    noises = [nacp.UniformNoise(0.2), matrix]
    return probs, truth, [(each, each.sample(truth, K, random_state=1)) for each in noises]


# The verbs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("score", [*SCORES, nacp.Precomputed()], ids=repr)
def test_the_torch_engine_gives_the_bits_of_numpys(score, dtype):
    ks = [2, 3, 17, 1001, 16, 100, 5, 40, 9]
    for i, kind in enumerate(KINDS):
        if i % 2 == SCORES.index(score) % 2 if score in SCORES else False:
            continue
        values = some_rows(kind, 8, ks[i], dtype, np.random.default_rng([ks[i], i]))
        said = []
        for name in ("numpy", "torch"):
            with engine.using(name):
                said.append(answers(score, values, np.random.default_rng(7)))
        for numpys, torches in zip(*said, strict=True):
            np.testing.assert_array_equal(numpys, torches, err_msg=f"{kind}, {ks[i]}")


def test_all_rows_of_one_class_have_a_score():
    with engine.using("torch"):
        block = engine.open_block(np.ones((3, 1)), nacp.APS(randomized=False).spec)
        assert engine.label_scores(block, np.zeros(3, dtype=int)).tolist() == [1, 1, 1]
        assert engine.sets(block, 1.0)[0].tolist() == [1, 1, 1]


def test_a_formula_of_ones_own_is_evaluated_there():
    def formula(x):
        steep = np.where(x.p < 0.1, 2 / (1 + x.u), np.maximum(x.u, 0.3) * x.p) - np.minimum(
            x.second, x.top / 3
        )
        return np.sqrt(x.above) + np.abs(steep) * x.n_above

    spec, values = Spec(traced(formula), ranked=True, seed=3), some_rows("ties", 30, 20, np.float32, RNG)
    found = []
    for name in ("numpy", "torch"):
        with engine.using(name):
            found.append(engine.open_block(values, spec).placed.tolist())
            assert engine.open_block(values, spec).on_device == (name == "torch")
    assert found[0] == found[1]


RNG = np.random.default_rng(0)


def test_bets_gain_alike_and_squares_and_counts_are_the_same():
    values, labels = some_rows("plain", 20, 9, np.float64, RNG), RNG.integers(9, size=20)
    for weights in (
        None,
        ByLabel(labels, Whole(RNG.integers(-9, 9, (9, 9)))),
        ByEntry(RNG.integers(-9, 9, (20, 9))),
    ):
        found = []
        for name in ("numpy", "torch"):
            with engine.using(name):
                block = engine.open_block(values, nacp.RAPS().spec)
                q = np.sort(engine.label_scores(block, labels))
                own, owners = (q[::-1].copy(), np.arange(20.0)), np.zeros(3, dtype=np.int64)
                bets, playing = (np.array([1, 3, 19]), np.ones(3), owners, 30.0), Bets(3, 20, 0.05, 0.1)

                def bet(points, *standing, known=(q, weights, own, -0.3, bets), block=block):
                    engine.bet(block, points, *known, standing)

                playing.place(20, bet)
                found.append([playing.stored()[0].tolist(), playing.stored()[1].tolist()])
                squares, ends = (
                    np.zeros((2, len(q) + 1), dtype=np.int64),
                    np.concatenate([[-np.inf], q, [np.inf]]),
                )
                engine.squares(block, ends, squares)
                found[-1].append(squares.tolist())
                found[-1].append(engine.counts(block, q[:18].reshape(2, 9), weights).tolist())
                which, pairs = engine.gaps(block, np.arange(9), q[:9], q[9:18], weights)
                found[-1] += [which.tolist(), pairs.scores.tolist(), pairs.weights.tolist()]
        assert found[0] == found[1]


# From the door to the sets


@pytest.mark.parametrize("guarantee", ["pac", "none", "expected"])
@pytest.mark.parametrize("score", ["hps", "aps", "raps", "saps", "margin", "topk"])
def test_a_tensor_on_a_device_gives_the_same_calibration_and_sets(points, device, score, guarantee):
    probs, _, noises = points
    noise, given = noises[(len(score) + len(guarantee)) % 2]
    options = {"noise": noise, "score": score, "guarantee": guarantee, "alpha": 0.2}
    tuned_alike = {"hint_pairs": 1000, "counted_pairs": 2000, "bets_entries": 1 << 16}
    with tuned(**tuned_alike):
        expected = nacp.calibrate(probs, given, **options)
        found = nacp.calibrate(device.put(probs), device.put(given), **options)
    assert found == expected
    assert found.tally == expected.tally
    there = device.put(probs)
    for allow_empty in (True, False):
        sets = found.predict_set(probs, allow_empty=allow_empty)
        assert found.predict_set(there, allow_empty=allow_empty).to_lists() == sets.to_lists()
        mask = found.predict_mask(there, allow_empty=allow_empty)
        assert isinstance(mask, Away)
        assert mask.dtype == torch.bool
        np.testing.assert_array_equal(mask.hidden.numpy(), np.asarray(sets))
    assert 0 < device.largest < BLOCK


def test_the_device_of_these_tests_refuses_copies_of_the_matrix(points, device):
    there, few = device.put(points[0]), device.put(points[0][:3])
    for copied in (
        lambda: there.cpu(),
        lambda: there.to("cpu"),
        lambda: there.numpy(),
        lambda: np.asarray(few),
        lambda: few.tolist(),
        lambda: nacp.HPS().scores(there),  # that is what it is for
    ):
        with pytest.raises((AssertionError, RuntimeError, TypeError)):
            copied()
    with pytest.raises(AssertionError, match="two devices"):
        there + torch.tensor(points[0])
    assert there[:5, 0].cpu().tolist() == points[0][:5, 0].tolist()


def test_few_waits_for_the_device(points, device):
    probs, _, ((noise, given), _) = points
    there = device.put(probs)
    blocks = -(-N // (BLOCK // K))
    device.syncs = 0
    cal = nacp.calibrate(there, given, noise=noise, guarantee="none", score="aps")
    # The door, the labels' scores and u, a tally and a window of each block; a glance, repeats and widths.
    assert device.syncs <= 8 * blocks + 40
    device.syncs = 0
    cal.predict_mask(there)
    assert device.syncs <= blocks


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_every_width_and_what_requires_grad(points, device, dtype):
    probs, _, ((noise, given), _) = points
    values = torch.tensor(probs.astype(np.float64)).to(getattr(torch, dtype))
    options = {"noise": noise, "score": "aps", "guarantee": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)
        plain = nacp.calibrate(values.requires_grad_(), given, **options)
        there = device.put(values.detach(), requires_grad=True)
        assert there.requires_grad
        found = nacp.calibrate(there, torch.tensor(given), **options)
    assert found == plain
    assert found.widths == plain.widths
    same = values.detach() if dtype != "bfloat16" else values.detach().float()
    assert found == nacp.calibrate(same.numpy(), given, **options)
    assert found.predict_set(there).to_lists() == plain.predict_set(same.numpy()).to_lists()
    if dtype == "float32":
        wide = device.put(same.double())  # rounded to float32
        assert found.predict_set(wide).to_lists() == plain.predict_set(same.numpy()).to_lists()
        narrow = device.put(same.half())
        for each in (narrow, same.half().numpy()):
            with pytest.raises(
                nacp.InputError, match="is float16, but the calibration was made with float32"
            ):
                found.predict_set(each)


def test_logits_and_normalised_rows_agree_to_rounding(points, device):
    probs, _, ((noise, given), _) = points
    logits = np.log(probs.astype(np.float64) + 1e-30) + np.arange(N)[:, None]
    for values, asked in ((logits, "from_logits"), (100 * probs, "normalize")):
        options = {"noise": noise, "guarantee": "none", asked: True}
        expected = nacp.calibrate(values, given, **options)
        found = nacp.calibrate(device.put(values), given, **options)
        # Each of at most K terms is rounded, the sum and the quotient; and exp, twice that.
        assert abs(found.threshold - expected.threshold) <= (K + 6) * 2.0**-53
        batch = found.predict_mask(device.put(values)).hidden
        alone = [found.predict_mask(device.put(values[i : i + 1])).hidden for i in range(40)]
        assert torch.equal(batch[:40], torch.cat(alone))
        differ = np.count_nonzero(np.asarray(expected.predict_set(values)) != batch.numpy())
        assert differ <= 2  # what lies at the threshold


def test_the_other_doors(points, device):
    probs, truth, ((noise, given), _) = points
    there, options = device.put(probs), {"noise": noise, "score": "raps"}
    curve, expected = (
        nacp.coverage_curve(each, given, **options, thresholds=[0.3, 0.9]) for each in (there, probs)
    )
    assert curve.clean.tolist() == expected.clean.tolist()
    tables = [nacp.compare(each, given, noise=noise, guarantees=["none", "nacp"]) for each in (there, probs)]
    assert str(tables[0]) == str(tables[1])
    cal = nacp.calibrate(probs, given, **options, guarantee="none")
    device.most = 4 * BLOCK  # of each row, the shares at 200 thresholds, which are more than classes
    assert str(cal.diagnose(there, given)) == str(cal.diagnose(probs, given))
    device.most = BLOCK
    assert nacp.RAPS().label_scores(there, given).tolist() == nacp.RAPS().label_scores(probs, given).tolist()
    assert nacp.RAPS().uniforms(there).tolist() == nacp.RAPS().uniforms(probs).tolist()
    assert cal.predictor()(device.put(probs[3])) == cal.predictor()(probs[3])
    result = nacp.evaluate(cal.predict_set(there), device.put(truth))
    assert result == nacp.evaluate(cal.predict_set(probs), truth)
    assert len(cal.predict_set(there[:0])) == 0
    assert cal.predict_mask(there[:0]).shape == (0, K)


@pytest.mark.parametrize("pairs", [1, 1 << 21])
def test_groups_of_classes(points, pairs):
    probs, _, ((noise, given), _) = points
    options = {"noise": noise, "score": "aps"}
    with tuned(collected_pairs=pairs):
        for one_by_one in (
            lambda rows: nacp.cluster_classes(rows, given, clusters=2, **options),
            lambda rows: nacp.calibrate(rows, given, guarantee="none", by="class", **options).thresholds,
        ):
            expected = one_by_one(probs)
            with engine.using("torch"):
                assert one_by_one(probs) == expected


def test_several_labels_unlabelled_points_and_scores_that_are_given(points, device):
    probs, truth, ((noise, given), (matrix, _)) = points
    two = np.stack([given, noise.sample(truth, K, random_state=9)], axis=1)
    two[::5, 1] = -1
    device.most = 4 * BLOCK  # "binomial" asks for sizes at 257 thresholds

    def found(put):
        return [
            nacp.calibrate(put(probs), put(two), noise=matrix, guarantee="none"),
            nacp.calibrate(put(probs), given, noise=noise, guarantee="binomial", unlabelled=put(probs[:500])),
            nacp.calibrate(put(-probs), given, noise=noise, guarantee="none", score="precomputed"),
        ]

    assert found(device.put) == found(lambda values: values)


@pytest.mark.parametrize("score", ["hps", "raps"])
def test_a_stream_of_tensors_is_counted_where_they_lie(points, device, score):
    probs, _, noises = points
    noise, given = noises[len(score) % 2]
    streams = [nacp.Calibrator(K, noise=noise, score=score) for _ in range(2)]
    device.most = 1 << 20  # the cells of a stream are finer, and their tally goes to the host
    for some in np.array_split(np.arange(N), 3):
        streams[0].update(probs[some], given[some])
        streams[1].update(device.put(probs[some]), device.put(given[some]))
    assert streams[0] == streams[1]
    found = [each.finish(guarantee="expected") for each in streams]
    assert found[0] == found[1]
    half = nacp.Calibrator(K, noise=noise, score=score)
    half.update(device.put(probs.astype(np.float16)), given)
    same = nacp.Calibrator(K, noise=noise, score=score)
    same.update(probs.astype(np.float16), given)
    assert half == same


def test_the_example_of_a_data_loader_runs(capsys):
    example = Path(__file__).parent.parent / "examples" / "torch_dataloader.py"
    runpy.run_path(str(example), run_name="__main__")
    told = re.search(r"Test: ([0-9.]+)% covered, by ([0-9.]+) of 50", capsys.readouterr().out)
    # The promise fails with probability 0.05, and 2,000 test points have a standard error of 0.7%.
    assert float(told[1]) > 90 - 3 * 0.7
    assert float(told[2]) < 5


def test_what_has_no_verb_takes_blocks_to_the_host(points):
    probs, truth, ((_, given), _) = points
    with Device(10**9, -1) as device:
        there, checked = device.put(probs), np.full(N, -1)
        checked[:300] = truth[:300]
        found, expected = (
            nacp.calibrate(each, given, clean=clean, alpha=0.2, guarantee="none")
            for each, clean in ((there, device.put(checked)), (probs, checked))
        )
        assert found == expected
        rates = [nacp.noise_from_model(each[:100], given[:100]).rate for each in (there, probs)]
        assert rates[0] == rates[1]


# Errors


def test_what_is_wrong_is_told_in_the_same_words(points, device):
    probs, _, ((noise, given), _) = points
    options = {"noise": noise, "guarantee": "none"}
    nan, infinite, negative, large = (probs.copy() for _ in range(4))
    nan[1100, 2], infinite[5, 1], negative[7, 0], large[1199] = np.nan, np.inf, -0.5, 2 * probs[1199]
    wrong = [
        (each, {}) for each in (nan, infinite, negative, large, np.log(probs + 1e-9), probs[0], probs[:0])
    ]
    wrong += [
        (100 * probs, {}),
        (probs[:, :1], {}),
        (probs, {"from_logits": True}),
        (nan, {"score": "precomputed"}),
    ]
    wrong += [
        (np.zeros((9, K)), {"normalize": True}),
        (infinite, {"from_logits": True}),
        (nan, {"normalize": True}),
    ]
    for values, more in wrong:
        said = []
        with Device(10**9, -1) as lenient:
            for each in (values, lenient.put(values)):
                with pytest.raises(nacp.InputError) as told:
                    nacp.calibrate(each, given[: len(values)], **options, **more)
                said.append(str(told.value))
        assert said[0] == said[1]
    with pytest.raises(nacp.InputError, match="must lie from 0 to 119"):
        nacp.calibrate(device.put(probs), device.put(given + 1), **options)
    with pytest.raises(nacp.InputError, match=r"must be an array of numbers; found dtype torch\.complex64"):
        nacp.calibrate(device.put(probs + 0j), given, **options)


def test_a_python_function_is_refused(points, device):
    probs, _, ((noise, given), _) = points
    with pytest.raises(nacp.InputError, match=r"score is a Python function.*'lazy'.*pass probs.cpu\(\)"):
        nacp.calibrate(device.put(probs), given, noise=noise, score=lambda p: -p)


def test_what_topk_returns_makes_rows(points):
    probs = torch.from_numpy(points[0]).requires_grad_()
    values, indices = torch.topk(probs, 40)
    known = nacp.TopRows(indices.numpy(), values.detach().numpy(), probs.shape[1])
    assert np.array_equal(nacp.TopRows(indices, values, probs.shape[1]), known)
    with pytest.raises(nacp.InputError, match=r"must be float32 or float64.*found torch\.bfloat16"):
        nacp.TopRows(indices, values.bfloat16(), probs.shape[1])


def test_devices_that_will_not_do_are_told():
    given = np.zeros(9, dtype=int)
    with pytest.raises(nacp.InputError, match="probs is on the device 'meta', which has no numbers"):
        nacp.calibrate(torch.empty((9, 3), device="meta"), given, noise=0.1)
    with pytest.raises(nacp.InputError, match="labels is on the device 'meta', which has no numbers"):
        nacp.calibrate(np.full((9, 3), 1 / 3), torch.empty(9, device="meta"), noise=0.1)
    apple = torch.Tensor._make_wrapper_subclass(Away, (9, 3), device=torch.device("mps"))
    with pytest.raises(nacp.InputError, match=r"'mps', which has no float64, in which.*pass probs.cpu\(\)"):
        nacp.calibrate(apple, given, noise=0.1)


# On the host


def test_a_tensor_in_the_memory_of_the_host_is_not_copied(points):
    probs, _, ((noise, given), _) = points
    held = torch.tensor(probs)
    opened = nacp.points.open_rows(held)
    assert np.shares_memory(opened[slice(0, 9)], held.numpy())
    cal = nacp.calibrate(held, given, noise=noise)
    assert cal == nacp.calibrate(probs, given, noise=noise)
    mask = cal.predict_mask(held)
    assert isinstance(mask, torch.Tensor)
    np.testing.assert_array_equal(mask.numpy(), cal.predict_mask(probs))
    np.testing.assert_array_equal(mask.numpy(), np.asarray(cal.predict_set(probs)))


def test_bfloat16_becomes_wider_block_by_block(points):
    held = torch.tensor(points[0]).bfloat16()
    opened = nacp.points.open_rows(held)
    assert opened._matrix is held or opened._matrix.data_ptr() == held.data_ptr()
    assert opened[slice(0, 9)].tolist() == held[:9].float().tolist()


def test_the_engine_that_is_asked_for_serves_arrays_too(points):
    probs, _, ((noise, given), _) = points
    expected = nacp.calibrate(probs, given, noise=noise, guarantee="none", score="aps")
    with engine.using("torch"):
        for each in (probs, torch.tensor(probs)):
            assert nacp.calibrate(each, given, noise=noise, guarantee="none", score="aps") == expected
        own = nacp.calibrate(probs, given, noise=noise, guarantee="none", score=lambda p: -p)
    assert (
        own.native_threshold == nacp.calibrate(probs, given, noise=noise, guarantee="none").native_threshold
    )


def test_torch_is_imported_by_nobody_but_the_caller():
    code = (
        "import sys, nacp, numpy as np; probs = np.full((50, 4), .25);"
        "cal = nacp.calibrate(probs, np.arange(50) % 4, noise=.1, guarantee='none'); cal.predict_mask(probs);"
        "print('torch' in sys.modules); sys.modules['torch'] = None;"  # as if it were not installed
        "nacp.calibrate(probs, np.arange(50) % 4, noise=.1, guarantee='none');"
        "nacp.engine.using('torch').__enter__()"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "False"
    last = said.stderr.splitlines()[-1]
    assert last == "ImportError: the engine torch needs PyTorch; pip install 'nacp[torch]'"
