"""Images of solid 8 x 8 blocks as files, for tests: BMP, PNG and baseline JPEG written by hand."""
import struct
import zlib

import numpy as np


def bmp(image):
    """24 bits, bottom row first, blue first, rows padded to four bytes."""
    height, width, _ = image.shape
    rows = b"".join(row[:, ::-1].tobytes() + b"\0" * (-3 * width % 4) for row in image[::-1])
    return (
        b"BM"
        + struct.pack(
            "<IHHIIiiHHIIiiII",
            54 + len(rows),
            0,
            0,
            54,
            40,
            width,
            height,
            1,
            24,
            0,
            len(rows),
            0,
            0,
            0,
            0,
        )
        + rows
    )


def png(image):
    height, width, _ = image.shape

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + row.tobytes() for row in image)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


# Huffman codes of JPEG's example table for DC sizes (Annex K.3), and one AC symbol: end of block.
DC_COUNTS, DC_SYMBOLS = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], list(range(12))


def jpeg(image):
    """Y, Cb, Cr without subsampling. A solid block is its DC coefficient alone: 8 (value - 128)."""
    r, g, b = (image[::8, ::8, i].astype(float) for i in range(3))
    planes = [
        0.299 * r + 0.587 * g + 0.114 * b,
        128 - 0.168736 * r - 0.331264 * g + 0.5 * b,
        128 + 0.5 * r - 0.418688 * g - 0.081312 * b,
    ]
    codes, code, symbol = {}, 0, 0
    for length, count in enumerate(DC_COUNTS, 1):
        for _ in range(count):
            codes[DC_SYMBOLS[symbol]] = format(code, "0%db" % length)
            code, symbol = code + 1, symbol + 1
        code <<= 1
    bits, before = "", [0, 0, 0]
    for blocks in zip(*(plane.ravel() for plane in planes)):
        for i, value in enumerate(blocks):
            dc = int(round(8 * (value - 128)))
            difference, before[i] = dc - before[i], dc
            size = abs(difference).bit_length()
            bits += (
                codes[size]
                + (
                    format(
                        difference if difference > 0 else difference + 2**size - 1, "0%db" % size
                    )
                    if size
                    else ""
                )
                + "0"
            )
    bits += "1" * (-len(bits) % 8)
    scan = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)).replace(
        b"\xff", b"\xff\0"
    )

    def segment(marker, data):
        return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data

    height, width, _ = image.shape
    return (
        b"\xff\xd8"
        + segment(0xDB, b"\0" + bytes([1] * 64))
        + segment(
            0xC0,
            struct.pack(">BHHB", 8, height, width, 3) + bytes([1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]),
        )
        + segment(0xC4, b"\0" + bytes(DC_COUNTS) + bytes(DC_SYMBOLS))
        + segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0")
        + segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0]))
        + scan
        + b"\xff\xd9"
    )


def solid_blocks(rng, count, side):
    """count x side x side x 3 bytes, every 8 x 8 block of one colour."""
    return (
        rng.integers(0, 256, (count, side // 8, side // 8, 3), dtype=np.uint8)
        .repeat(8, axis=1)
        .repeat(8, axis=2)
    )
