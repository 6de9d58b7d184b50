"""Output of miniray.train: files that other programs read, shards, the display."""

import concurrent.futures
import csv
import json
import os
import pty
import re
import struct
import subprocess
import sys
import textwrap
import time
import types
from xml.etree import ElementTree

import numpy as np
import pytest

import miniray
from miniray.train import (BaseTrainer, CSVLogger, DataParallelTrainer, JSONLLogger, ShardSampler, TensorBoardLogger, display,
                           load_weights, plot, save_weights, shard_indices)


class Scripted(BaseTrainer):
    """A worker that returns given results without work."""

    def __init__(self, results, **options):
        super().__init__(1, **{"display": "quiet", **options})
        self.results = results

    def create_worker(self, worker_id, **kwargs):
        @miniray.remote
        class Idle:
            pass
        return Idle.remote()

    def train_epoch(self, epoch, **kwargs):
        return self.results[epoch]


RESULTS = [{"loss": 0.5, "test": {"accuracy": np.float32(0.25)}, "synced": True, "note": "a, b"},
           {"loss": np.float64(0.125), "test": {"accuracy": 0.5}, "synced": False, "array": np.arange(3), "odd": {1, 2}}]


def write(ray, callback):
    with Scripted(RESULTS, callbacks=[callback]) as trainer:
        trainer.train(epochs=2)


def test_planted_links_are_not_followed(ray, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")

    def planted(name):
        path = tmp_path / name
        path.symlink_to(precious)
        return str(path)
    with pytest.raises(OSError, match="is a symbolic link"):
        write(ray, CSVLogger(planted("a.csv")))
    with pytest.raises(OSError):
        ray.timeline(planted("trace.json"))
    with pytest.raises(OSError):
        plot.draw([{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": 2.0}], planted("a.svg"))
    address = miniray.init(ignore_reinit_error=True)["address"]
    command = [os.path.join(os.environ["MINIRAY_TEST_BUILD"], "miniray"), "timeline", "--address", address]
    told = subprocess.run([*command, planted("b.json")], stderr=subprocess.PIPE, text=True)
    assert told.returncode == 1 and "is a symbolic link" in told.stderr
    assert subprocess.run([*command, str(tmp_path / "own.json")]).returncode == 0
    planted(f"weights.npz.{os.getpid()}.tmp")
    os.link(precious, tmp_path / f"others.npz.{os.getpid()}.tmp")
    for name in "weights.npz", "others.npz":
        save_weights([np.ones(3)], tmp_path / name)
        assert (load_weights(tmp_path / name)[0] == 1).all()
    assert precious.read_text() == "mine"


def test_csv(ray, tmp_path):
    write(ray, CSVLogger(tmp_path / "history.csv"))
    with open(tmp_path / "history.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"epoch": "0", "loss": "0.5", "test/accuracy": "0.25", "synced": "true", "note": "a, b"},
            {"epoch": "1", "loss": "0.125", "test/accuracy": "0.5", "synced": "false", "note": ""}]


def test_jsonl(ray, tmp_path):
    write(ray, JSONLLogger(str(tmp_path / "history.jsonl")))
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert lines[0] == {"epoch": 0, "loss": 0.5, "test": {"accuracy": 0.25}, "synced": True, "note": "a, b"}
    assert lines[1]["epoch"] == 1 and lines[1]["loss"] == 0.125 and lines[1]["array"] == [0, 1, 2]


def test_a_file_that_cannot_be_written(ray):
    with pytest.raises(OSError, match="/nonexistent"):
        write(ray, CSVLogger("/nonexistent/folder/history.csv"))


# ---- TensorBoard's files, read by a reader that knows nothing of the writer.


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def masked_crc(data, table=crc32c_table()):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        (length,), (length_crc,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        assert length_crc == masked_crc(data[:8])
        body, (crc,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        assert crc == masked_crc(body)
        yield body
        data = data[16 + length:]


def fields(data):
    """(number, value) of a message of protocol buffers."""
    def varint():
        nonlocal data
        number = shift = 0
        while True:
            byte, data = data[0], data[1:]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
    while data:
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, data = data[:size], data[size:]
        yield key >> 3, value


def test_tensorboard(ray, tmp_path):
    assert (masked_crc(b"123456789") - 0xA282EAD8) & 0xFFFFFFFF == 0xE3069283 >> 15 | (0xE3069283 << 17) & 0xFFFFFFFF
    write(ray, TensorBoardLogger(tmp_path / "runs"))
    (name,) = os.listdir(tmp_path / "runs")
    assert name.startswith("events.out.tfevents.")
    events = [dict(fields(body)) for body in records((tmp_path / "runs" / name).read_bytes())]
    assert events[0][3] == b"brain.Event:2"
    assert all(struct.unpack("<d", event[1])[0] > 1e9 for event in events)
    read = []
    for event in events[1:]:
        values = [dict(fields(value)) for number, value in fields(event[5]) if number == 1]
        read.append((event[2], {value[1].decode(): struct.unpack("<f", value[2])[0] for value in values}))
    assert read == [(0, {"loss": 0.5, "test/accuracy": 0.25}), (1, {"loss": 0.125, "test/accuracy": 0.5})]


# ---- Weights.


def test_dicts_of_weights(tmp_path):
    weights = {"layer/w": np.ones((2, 3), np.float16), "b": np.zeros(3)}
    path = save_weights(weights, tmp_path / "model")
    loaded = load_weights(path)
    assert path.endswith("model.npz") and list(loaded) == ["layer/w", "b"] and loaded["layer/w"].dtype == np.float16


ARRAY = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("weights", [{"G": [ARRAY, ARRAY[0]], "D": {"a/b": ARRAY, "%2F": ARRAY[1]}},
                                     [(ARRAY,), [ARRAY[0], ARRAY]], ARRAY, (ARRAY, ARRAY[0]), {7: ARRAY, "": ARRAY[0]}, [], {}, [[], {}, (), ARRAY],
                                     [np.array(2.5), 1.5]])
def test_trees_of_weights(tmp_path, weights):
    def same(got, expected):
        if not isinstance(expected, (list, tuple, dict)):
            return isinstance(got, np.ndarray) and np.array_equal(got, expected) and got.shape == np.shape(expected)
        if type(got) is not type(expected) or len(got) != len(expected):
            return False
        if isinstance(expected, dict):
            return list(got) == list(expected) and all(same(got[key], expected[key]) for key in expected)
        return all(map(same, got, expected))
    assert same(load_weights(save_weights(weights, tmp_path / "model")), weights)


@pytest.mark.parametrize("weights, text", [([ARRAY, None], "list:1 is NoneType"),
                                           ({(1, 2): ARRAY}, r"the key \(1, 2\)"),
                                           (3, "not 3"), (None, "not None")])
def test_what_no_file_can_have_is_named(tmp_path, weights, text):
    with pytest.raises(TypeError, match=text):
        save_weights(weights, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def torn(data):
    """Damaged files: a file's first part, or another content."""
    return {"half": data[:len(data) // 2], "empty": b"", "less": data[:-1], "text": b"epoch,loss\n0,0.5\n",
            "zeros": bytes(len(data)), "other": data[:120] + bytes([data[120] ^ 255]) + data[121:]}


@pytest.mark.parametrize("how", torn(bytes(200)))
def test_a_torn_file_is_told(tmp_path, how):
    path = save_weights([np.arange(100.0)], tmp_path / "model")
    with open(path, "r+b") as file:
        data = torn(file.read())[how]
        file.truncate(0)
        file.seek(0)
        file.write(data)
    with pytest.raises(ValueError, match="model.npz is not a file of save_weights, or is damaged: "):
        load_weights(path)


def test_a_torn_file_of_torch_is_told(tmp_path):
    torch = pytest.importorskip("torch")
    path = save_weights([torch.ones(100)], tmp_path / "model")
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    with pytest.raises(ValueError, match="model.pt is not a file of save_weights, or is damaged: "):
        load_weights(path)


def test_what_others_wrote_is_not_taken_for_weights(tmp_path):
    np.savez(tmp_path / "own.npz", w=ARRAY, b=ARRAY[0])
    with pytest.raises(ValueError, match="own.npz is not a file of save_weights.*array 'w'"):
        load_weights(tmp_path / "own.npz")
    with pytest.raises(FileNotFoundError):
        load_weights(tmp_path / "none.npz")


def test_the_ending_may_be_left_out(tmp_path):
    save_weights([ARRAY], tmp_path / "model")
    assert np.array_equal(load_weights(tmp_path / "model")[0], ARRAY)


def test_a_program_that_is_killed_leaves_the_last_weights(tmp_path):
    saver = subprocess.Popen([sys.executable, "-c", f"""if True:
        import numpy as np
        from miniray.train import save_weights
        for number in range(1_000_000):
            save_weights([np.full(200_000, float(number))] * 2, {str(tmp_path / "model")!r})
            print(number, flush=True)
    """], stdout=subprocess.PIPE)
    for _ in range(5):
        last = int(saver.stdout.readline())
    saver.kill()
    saver.wait()
    first, second = load_weights(tmp_path / "model")
    saver.stdout.close()
    assert first.size == 200_000 and (first == first[0]).all() and first[0] >= last and np.array_equal(first, second)


def test_what_a_killed_program_was_writing_goes_with_the_next_save(tmp_path):
    saver = subprocess.Popen([sys.executable, "-c", f"""if True:
        import os, time
        import numpy as np
        from miniray.train import save_weights
        os.fsync = lambda file: (print("written", flush=True), time.sleep(1000))
        save_weights([np.zeros(1000)], {str(tmp_path / "model")!r})
    """], stdout=subprocess.PIPE)
    assert saver.stdout.readline() == b"written\n"
    draft = f"model.npz.{saver.pid}.tmp"
    save_weights([ARRAY], tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["model.npz", draft]  # while the file is written
    saver.kill()
    saver.wait()
    saver.stdout.close()
    for name in ("model.npz.old.tmp", "model.npz.1.tmp.2", "other.npz.1.tmp"):
        (tmp_path / name).write_text("not ours")
    save_weights([ARRAY], tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["model.npz", "model.npz.1.tmp.2", "model.npz.old.tmp", "other.npz.1.tmp"]


def test_threads_may_save_to_one_path(tmp_path):
    models = [np.full(50_000, float(number)) for number in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda model: [save_weights([model], tmp_path / "model") for _ in range(10)], models))
    assert os.listdir(tmp_path) == ["model.npz"]
    (found,) = load_weights(tmp_path / "model")
    assert any(np.array_equal(found, model) for model in models)


def test_torch_weights(tmp_path):
    torch = pytest.importorskip("torch")
    weights = [torch.ones(2, 3).to(torch.bfloat16), torch.arange(3)]
    path = save_weights(weights, tmp_path / "model")
    assert path.endswith("model.pt") and all(torch.equal(a, b) for a, b in zip(load_weights(path), weights))
    with pytest.raises(TypeError, match="list:0 is bfloat16, which NumPy does not have"):
        save_weights(weights, tmp_path / "model.npz")
    path = save_weights({"G": weights, "D": [torch.zeros(2)]}, tmp_path / "gan")
    assert path.endswith("gan.pt") and torch.equal(load_weights(path)["G"][1], weights[1])


# ---- Shards.


@pytest.mark.parametrize("count, shards", [(0, 3), (10, 1), (100, 7), (5, 8)])
def test_shards_are_a_partition(count, shards):
    parts = [shard_indices(count, i, shards, seed=3) for i in range(shards)]
    assert sorted(i for part in parts for i in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_seed_decides_the_shards():
    assert list(shard_indices(10, 0, 2, seed=1)) == [3, 6, 1, 5, 0]
    assert list(shard_indices(10, 0, 2)) != list(shard_indices(10, 0, 2, seed=1))
    for wrong in ((10, 2, 2), (10, -1, 2), (10, 0, 0), (-1, 0, 1)):
        with pytest.raises(ValueError):
            shard_indices(*wrong)


def test_a_sampler_for_torch():
    sampler = ShardSampler(range(20), 1, 2, seed=5)
    own = sorted(shard_indices(20, 1, 2, seed=5))
    orders = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
        assert sorted(orders[-1]) == own and len(sampler) == 10
    assert orders[0] == orders[2] != orders[1]
    assert list(ShardSampler(range(20), 1, 2, seed=5, shuffle=False)) == list(shard_indices(20, 1, 2, seed=5))


def test_the_sampler_in_a_loader():
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(torch.arange(20), batch_size=4, sampler=ShardSampler(range(20), 0, 2))
    assert sorted(int(i) for batch in loader for i in batch) == sorted(shard_indices(20, 0, 2))


# ---- The display.

PROGRAM = textwrap.dedent("""
    import sys
    import miniray
    from miniray.train import BaseTrainer

    class Worker:
        def __init__(self, worker_id):
            self.id = worker_id
        def train_epoch(self, epoch):
            return {"loss": 1.0 / (epoch + 1), "samples": 10}

    class Trainer(BaseTrainer):
        def create_worker(self, worker_id, **kwargs):
            return miniray.remote(Worker).remote(worker_id)
        def on_epoch_end(self, epoch, result, **kwargs):
            if "--print" in sys.argv:
                print("hook", epoch)

    with Trainer(2, display=sys.argv[1]) as trainer:
        trainer.train(epochs=3)
    """)


def test_plain_lines_where_there_is_no_terminal(tmp_path, run_program):
    lines = run_program(PROGRAM, arguments=["-c", PROGRAM, "auto"]).stdout.splitlines()
    assert [re.sub(r"[\d.]+ s$", "T", line) for line in lines] == [
        "epoch 1/3  loss 1  samples 10  T", "epoch 2/3  loss 0.5  samples 10  T", "epoch 3/3  loss 0.3333  samples 10  T"]


def test_quiet_says_nothing(run_program):
    assert run_program(PROGRAM, arguments=["-c", PROGRAM, "quiet"]).stdout == ""


def on_terminal(*arguments, **environment):
    """The output of a program on a terminal of 100 columns."""
    import fcntl
    import termios
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    without = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdin=side, stdout=side, stderr=side,
                             env={**without, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment})
    os.close(side)
    output = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(main)
    assert child.wait(timeout=60) == 0, output.decode()
    return output.decode()


def test_a_live_line_on_a_terminal():
    output = on_terminal("auto")
    lines = output.split("\r\n")
    assert len(lines) == 2 and lines[1] == ""  # one line, redrawn in place
    drawn = [re.sub(r"\x1b\[\d*[mK]", "", each) for each in lines[0].split("\r")]
    assert all(len(each) <= 99 for each in drawn)
    assert drawn[-1].startswith("epoch 3/3 ━") and "loss 0.3333" in drawn[-1] and "in all" in drawn[-1]
    assert "\x1b[32m" in output


def test_lines_where_nothing_can_be_drawn_again():
    output = on_terminal("auto", TERM="dumb")
    assert "\x1b" not in output and output.count("epoch ") == 3 and "epoch 3/3  loss 0.3333" in output


def test_a_terminal_of_few_letters():
    output = on_terminal("auto", PYTHONIOENCODING="ascii")
    assert "epoch 3/3 \x1b[32m=" in output and "in all" in output


class Gone:
    """A pipe whose reader has closed it."""

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize("out", [Gone(), None])
@pytest.mark.parametrize("mode", ["lines", "live"])
def test_who_looks_may_go(ray, monkeypatch, mode, out):
    """A training does not end when the reader of its output ends."""
    monkeypatch.setattr(sys, "stdout", out)
    trained = Scripted([{"loss": 1.0}, {"loss": 0.5}], display=mode).train(epochs=2)["epochs"]
    monkeypatch.undo()
    assert trained == 2


def test_no_worker_is_undone_while_the_weights_are_synced(ray, monkeypatch):
    told = []
    monkeypatch.setattr(display.Quiet, "tick", lambda self, done: told.append(done))

    @miniray.remote
    class Slow:
        def get_weights(self):
            return [np.zeros(3)]

        def set_weights(self, weights):
            time.sleep(0.4)

        def train_epoch(self, epoch):
            return {}

    class Trainer(DataParallelTrainer):
        def create_worker(self, worker_id, **kwargs):
            return Slow.remote()
    with Trainer(2, display="quiet") as trainer:
        trainer.train(epochs=1)
    assert told.count(2) >= 4 and told == sorted(told)


def test_no_colour_if_nobody_wants_it():
    assert "\x1b[32m" not in on_terminal("live", NO_COLOR="1")


def test_what_hooks_print_stands_in_lines_of_its_own():
    output = re.sub(r"\x1b\[\d*m", "", on_terminal("live", "--print"))
    for epoch in range(3):
        assert re.search(rf"(\r\x1b\[K|\n)hook {epoch}\r\n", output)


def test_plot(ray, tmp_path):
    pytest.importorskip("matplotlib")
    with Scripted(RESULTS) as trainer:
        trainer.train(epochs=2)
        assert trainer.plot(tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(ValueError, match="accurracy.*loss"):
            trainer.plot(tmp_path / "x.png", fields=["accurracy"])


def test_what_is_plotted(ray, monkeypatch, tmp_path):
    """A stand-in for matplotlib only records calls, so that the test runs everywhere."""
    told = []

    class Figure:
        def __init__(self, **options):
            pass

        def add_subplot(self, rows, columns, number, sharex):
            told.append((rows, columns, number, sharex is None))
            return self

        def plot(self, epochs, values, label):
            told.append((label, list(epochs), values))

        def set_xlabel(self, text):
            told.append(text)

        def legend(self):
            pass

        def savefig(self, path):
            path.write_text("a picture")
    for name in ("matplotlib", "matplotlib.backends"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name, what in (("matplotlib.figure", {"Figure": Figure}),
                       ("matplotlib.backends.backend_agg", {"FigureCanvasAgg": lambda figure: None})):
        module = types.ModuleType(name)
        module.__dict__.update(what)
        monkeypatch.setitem(sys.modules, name, module)
    with Scripted(RESULTS) as trainer:
        trainer.train(epochs=2)
        assert trainer.plot(tmp_path / "loss.png", fields=["loss"]).read_text() == "a picture"
        assert told == [(1, 1, 1, True), ("loss", [0, 1], [result["loss"] for result in trainer.history]), "epoch"]
        told.clear()
        plot.draw([{"loss": 1.0, "samples": 9, "val_loss": 2.0}], tmp_path / "two.png")
        assert told == [(2, 1, 1, True), ("loss", [0], [1.0]), ("val_loss", [0], [2.0]), (2, 1, 2, False),
                        ("samples", [0], [9.0]), "epoch"]
        with pytest.raises(ValueError, match="accurracy.*loss"):
            trainer.plot(tmp_path / "x.png", fields=["accurracy"])


def test_a_drawing_needs_nothing(ray, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    history = [{"loss": 2.5, "a < b": 7}, {"loss": float("nan")}, {"loss": 1}, {"loss": 0.5}, {"loss": float("inf")}]
    plot.draw(history, tmp_path / "loss.svg", over="step")
    drawn = [(element.tag.rpartition("}")[2], element) for element in ElementTree.parse(tmp_path / "loss.svg").getroot()]
    texts = [element.text for tag, element in drawn if tag == "text"]
    assert texts[-1] == "step" and texts.index("loss") < texts.index("a < b") and {"0", "1", "2", "3", "4"} <= set(texts)
    places = [(float(element.get("cx")), float(element.get("cy"))) for tag, element in drawn if tag == "circle"]
    curves = [element.get("points") for tag, element in drawn if tag == "polyline"]
    assert len(places) == 2 and places[0][0] == places[1][0] == 68 and places[0][1] < places[1][1]  # each point alone
    assert len(curves) == 1 and len(curves[0].split()) == 2  # the points between the gaps
    for values in ([0], [0, 0], [1e-30, 1e30], [-5, -5.0000001], [float("nan")], [1e300, -1e300]):
        plot.draw([{"x": value} for value in values], tmp_path / "odd.svg")
        assert not re.search("nan|inf", (tmp_path / "odd.svg").read_text())
    with pytest.raises(ValueError, match="los.*loss"):
        plot.draw(history, tmp_path / "x.svg", fields=["los"])


def _panels(path):
    """The names of each panel, from above, and the heights of the curves in the drawing."""
    drawn = [(element.tag.rpartition("}")[2], element) for element in ElementTree.parse(path).getroot()]
    names = [element.text for tag, element in drawn if tag == "text" and not re.fullmatch(r"[-+\d.e]+|epoch", element.text)]
    curves = [[float(point.partition(",")[2]) for point in element.get("points").split()]
              for tag, element in drawn if tag == "polyline"]
    return dict(zip(names, curves))


def test_each_kind_of_number_has_an_axis(ray, tmp_path):
    history = [{"loss": 2.0 - epoch, "val_loss": 2.2 - epoch, "accuracy": epoch / 2, "samples": 60000, "lr": 1e-3, "x": 5.0,
                "y": 9.0, "z": 700.0} for epoch in range(3)]
    plot.draw(history, tmp_path / "kinds.svg")
    curves = _panels(tmp_path / "kinds.svg")
    assert list(curves) == ["loss", "val_loss", "accuracy", "samples", "lr", "x", "y", "z"]
    assert max(curves["loss"]) - min(curves["loss"]) > 100  # 60,000 samples do not flatten it
    for above, below in (("loss", "accuracy"), ("val_loss", "accuracy"), ("accuracy", "samples"), ("samples", "lr"), ("lr", "x"), ("y", "z")):
        assert max(curves[above]) < min(curves[below])
    assert curves["x"][0] > curves["y"][0]  # of no known kind, and of comparable sizes: one axis


def test_plot_without_matplotlib(ray, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with Scripted(RESULTS) as trainer:
        with pytest.raises(ImportError, match="python3-matplotlib"):
            trainer.plot()
