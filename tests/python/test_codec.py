"""Implementations of the parameter server's codecs in NumPy: the same bytes, from the formats of
src/kv/codec/codec.h."""

import os
import struct
import subprocess

import numpy as np
import pytest

PROGRAM = os.path.join(os.environ["MINIRAY_TEST_BUILD"], "tests", "codec-program")
IDS = {"none": 0, "fp16": 1, "bf16": 2, "int8": 3, "sign": 4, "topk": 5, "randk": 6}
MASK = 2**64 - 1
SEED, STEP = 11, 3


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def mix2(a, b):
    return mix(mix(a) ^ b)


def bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def blocks(x, size):
    return [x[at:at + size] for at in range(0, len(x), size)]


def int8(x):
    """(bytes, decoded values)"""
    out, back = b"", []
    for block in blocks(x, 256):
        scale = np.float32(float(np.abs(block).max()) / 127)
        q = np.clip(np.rint(block / scale), -127, 127) if scale > 0 else np.zeros_like(block)
        out += scale.tobytes() + q.astype(np.int8).tobytes()
        back.append(scale * q.astype(np.int8).astype(np.float32))
    return out, np.concatenate(back)


def sign(x):
    out, back = b"", []
    for block in blocks(x, 1024):
        total = 0.0
        for value in np.abs(block).tolist():  # sums in the order of the values
            total += value
        scale = np.float32(total / len(block))
        out += scale.tobytes() + np.packbits(block < 0, bitorder="little").tobytes()
        back.append(np.where(block < 0, -scale, scale))
    return out, np.concatenate(back)


def some(x, places):
    back = np.zeros_like(x)
    back[places] = x[places]
    return x[places].tobytes(), back


def twin(name, x, part, seed=SEED, step=STEP):
    """(bytes after the head of the message, decoded values)"""
    k = max(1, int(part * len(x)))
    if name == "none":
        return x.tobytes(), x
    if name == "fp16":
        return x.astype(np.float16).tobytes(), x.astype(np.float16).astype(np.float32)
    if name == "bf16":
        return bf16(x).tobytes(), (bf16(x).astype(np.uint32) << 16).view(np.float32)
    if name in ("int8", "sign"):
        return int8(x) if name == "int8" else sign(x)
    if name == "topk":
        places = np.sort(np.argsort(-np.abs(x), kind="stable")[:k]).astype(np.uint32)
        values, back = some(x, places)
        return struct.pack("<I", k) + places.tobytes() + values, back
    seed = mix2(seed, step)
    ends = [len(x) * i // k for i in range(k + 1)]
    places = [a + (mix2(seed, i) * (b - a) >> 64) for i, (a, b) in enumerate(zip(ends, ends[1:]))]
    values, back = some(x, places)
    return struct.pack("<IQ", k, seed) + values, back


def values(kind, count):
    rng = np.random.default_rng(count)
    x = (rng.normal(size=count) * 10.0 ** rng.integers(-6, 4, size=count)).astype(np.float32)
    if kind == "zeros":
        x[:] = 0
    if kind == "equal":
        x = np.sign(x).astype(np.float32)
    return x


def program(data, *words):
    return subprocess.run([PROGRAM, *map(str, words)], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("kind", ["normal", "zeros", "equal"])
@pytest.mark.parametrize("name", IDS)
def test_twin(name, kind):
    for count in (1, 9, 256, 3001):
        x = values(kind, count)
        text = f"{name}:0.05" if name in ("topk", "randk") else name
        body, back = twin(name, x, 0.05)
        message = program(x.tobytes(), "encode", text, SEED, STEP)
        assert message == struct.pack("<II", IDS[name], count) + body
        assert program(message, "decode", count) == back.astype(np.float32).tobytes()
