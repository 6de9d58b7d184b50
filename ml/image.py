"""Grids of small grey images as PNG files, with nothing but the standard library and NumPy."""

import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY_8_BIT = (8, 0, 0, 0, 0)  # depth, colour, and the only ways there are to compress, filter and not interlace


def grid(images, columns, *, scale=8, gap=1):
    """One uint8 picture of many: images [n, height, width] from 0 (white) to 1 (black), in rows of `columns`."""
    images = np.asarray(images)
    count, height, width = images.shape
    rows = -(-count // columns)
    picture = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap), 0.5)
    for i, image in enumerate(images):
        top, left = (i // columns) * (height + gap) + gap, (i % columns) * (width + gap) + gap
        picture[top : top + height, left : left + width] = np.clip(image, 0, 1)
    return np.kron(np.round(255 * (1 - picture)), np.ones((scale, scale))).astype(np.uint8)


def write_png(path, picture):
    """Writes a uint8 picture [height, width] as a grey PNG."""
    height, width = picture.shape
    lines = np.hstack([np.zeros((height, 1), np.uint8), picture]).tobytes()  # each begins with its filter: none
    with open(path, "wb") as file:
        file.write(_SIGNATURE)
        for kind, body in ((b"IHDR", struct.pack(">II5B", width, height, *_GREY_8_BIT)),
                           (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
