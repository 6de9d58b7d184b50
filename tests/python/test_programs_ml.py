"""The programs in examples/ and ml/ that need NumPy alone, run as users run them: from the root of the repository."""

import pickle
import re

import numpy as np
import pytest

def percentages(text):
    return [float(number) for number in re.findall(r"(\d+\.\d+) ?%", text)]


def test_the_strategies_side_by_side(run_here):
    lines = run_here("examples/parameter_server_demo.py", "--epochs", "8").stdout.splitlines()
    table = {line.split()[0]: line for line in lines[3:]}
    assert list(table)[:3] == ["average", "weighted", "momentum"] and list(table)[-1] == "middle"
    assert {"median", "trimmed_mean", "max"} <= set(table)
    assert table["average"].endswith("AverageStrategy") and table["middle"].endswith("MiddleStrategy")
    assert all(line.split()[3] == "8" for line in table.values())  # number of syncs
    right, wrong = percentages(table["average"])
    assert right > 90
    assert percentages(table["median"])[1] > wrong  # the median ignores the worker with wrong weights


def test_the_framework_classifies_digits(run_here):
    done = run_here("examples/train_framework_demo.py")
    parallel, population = (float(number) for number in re.findall(r"^test accuracy: (\S+)%", done.stdout, re.M))
    assert parallel >= 95 and population >= 95
    assert "after 10 syncs" in done.stdout and done.stderr == ""


def test_cifar10_from_a_folder_or_a_clear_error(run_here, tmp_path):
    refused = run_here("examples/train_framework_demo.py", "--dataset", "cifar10", "--path", str(tmp_path), code=2)
    assert "cifar10 is not in" in refused.stderr and "Traceback" not in refused.stderr
    refused = run_here("examples/train_framework_demo.py", "--dataset", "mnist", code=2)
    assert "no dataset is called 'mnist'" in refused.stderr and "Traceback" not in refused.stderr
    draw = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        labels = np.arange(20) % 10
        data = (12 * labels[:, None] + draw.integers(0, 9, (20, 3072))).astype(np.uint8)
        (tmp_path / name).write_bytes(pickle.dumps({b"data": data, b"labels": labels.tolist()}))
    done = run_here("examples/train_framework_demo.py", "--dataset", "cifar10", "--path", str(tmp_path),
                    "--epochs", "2", "--workers", "2")
    assert len(re.findall(r"^test accuracy: ", done.stdout, re.M)) == 2


def test_a_training_with_a_kill_ends_with_the_same_bits(run_here):
    done = run_here("examples/digits.py", "--epochs", "10", "--workers", "3")
    assert re.search(r"^  kill -9 \d+: worker 2 is gone$", done.stdout, re.M)
    assert "after kill   the same bits as a training that nobody disturbed" in done.stdout
    accuracy, *split = percentages(done.stdout.split("accuracy     ")[1])
    assert accuracy >= 95
    assert len(split) == 5 and sum(split) == pytest.approx(100, abs=0.5)


def test_wrong_arguments_are_told_in_a_line(run_here):
    for arguments in (["--workers", "0"], ["--epochs", "1"], ["--epochs", "many"]):
        refused = run_here("examples/digits.py", *arguments, code=2)
        assert "error: " in refused.stderr.splitlines()[-1] and "Traceback" not in refused.stderr
