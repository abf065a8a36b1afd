import subprocess
import sys

import numpy as np
import pytest

from nacp.datasets import load_languages

PARTS = {"train": 120, "calibration": 40, "test": 40}


@pytest.fixture(scope="module")
def data():
    return load_languages()


def test_there_are_more_than_400_languages_each_with_its_own_name_and_as_many_texts(data):
    assert len(data.names) > 400
    assert len(set(data.names)) == len(set(data.codes)) == len(data.names)
    assert {"English", "French", "Hebrew", "Korean", "Swahili"} <= set(data.names)
    for part, count in PARTS.items():
        texts, labels = getattr(data, part)
        assert len(texts) == len(labels)
        assert labels.dtype == np.int64
        assert np.bincount(labels).tolist() == [count] * len(data.names)
    counts = np.bincount(data.train.labels[:1000], minlength=len(data.names))
    assert counts.max() - counts.min() <= 1, "also in the first rows"


def test_snippets_are_short_and_clean_and_none_occurs_twice(data):
    """20 to 60 letters; a Chinese character counts for three of them, so the fewest characters are 7."""
    texts = [text for part in PARTS for text in getattr(data, part).texts]
    assert len(set(texts)) == len(texts) == 200 * len(data.names)
    assert all(7 <= len(text) <= 60 for text in texts)
    assert all(text == " ".join(text.split()) and "<" not in text for text in texts)
    english = [text for text, label in zip(*data.test, strict=True) if data.names[label] == "English"]
    assert all(20 <= len(text) <= 60 for text in english)


def test_it_needs_no_scikit_learn_and_nacp_does_not_import_it():
    program = (
        "import sys; sys.modules['sklearn'] = None; import nacp; assert 'nacp.datasets' not in sys.modules; "
        "assert 'lzma' not in sys.modules; assert len(nacp.datasets.load_languages().names) > 400"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
