# SPDX-License-Identifier: Apache-2.0
"""Makes decode/: small pictures in every kind of file that Decode reads, each
with what Pillow makes of it (NAME.png), turned by its EXIF orientation and laid
over white. Needs Pillow (made with 13.0.0):

    python3 make_pictures.py
"""
import os
import struct
import zlib

from PIL import Image, ImageOps

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "decode")


def drawing(w, h, alpha=False):
    m = Image.new("RGBA" if alpha else "RGB", (w, h))
    for y in range(h):
        for x in range(w):
            r, g, b = 255 * x // w, 255 * y // h, 255 - 255 * x // w
            if (x - w // 2) ** 2 + (y - h // 3) ** 2 < (h // 4) ** 2:
                r, g, b = 230, 30, 40
            if x < 8 and y < 5:
                r, g, b = 20, 200, 60
            a = 255 if y < h // 2 else 255 * x // w
            m.putpixel((x, y), (r, g, b, a) if alpha else (r, g, b))
    return m


def expected(path):
    with Image.open(path) as m:
        m.load()
        if m.mode == "I;16" or m.mode.startswith("I"):
            m = m.point(lambda v: v / 256).convert("L")
        m = ImageOps.exif_transpose(m)
        if m.mode in ("RGBA", "LA", "PA") or "transparency" in m.info:
            m = m.convert("RGBA")
            white = Image.new("RGB", m.size, (255, 255, 255))
            white.paste(m, mask=m.split()[3])
            m = white
        return m.convert("RGB")


def save(name, m, **options):
    path = os.path.join(OUT, name)
    m.save(path, **options)
    expected(path).save(os.path.join(OUT, name + ".png"), optimize=True)


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def png16(path, w, h):
    """An RGB PNG of 16 bits, which Pillow cannot write, and its high bytes."""
    rows, high = b"", bytearray()
    for y in range(h):
        rows += b"\0"
        for x in range(w):
            for v in (65535 * x // w, 65535 * y // h, 40000):
                rows += struct.pack(">H", v)
                high.append(v >> 8)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 16, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    Image.frombytes("RGB", (w, h), bytes(high)).save(path + ".png", optimize=True)


def main():
    os.makedirs(OUT, exist_ok=True)
    rgb, rgba = drawing(45, 31), drawing(45, 31, True)
    save("rgb.png", rgb)
    save("rgba.png", rgba)
    save("grey.png", rgb.convert("L"))
    save("grey-alpha.png", rgba.convert("LA"))
    save("palette.png", rgb.quantize(17))
    save("palette-transparent.png", rgb.quantize(17), transparency=3)
    save("bits.png", rgb.convert("1"))
    save("grey16.png", Image.frombytes("I;16", (16, 12), b"".join(struct.pack("<H", 340 * i) for i in range(192))))
    png16(os.path.join(OUT, "rgb16.png"), 16, 12)
    save("exif6.png", rgb, exif=exif(6))

    for name, sub in (("444", 0), ("422", 1), ("420", 2)):
        save(f"{name}.jpg", rgb, quality=90, subsampling=sub)
    save("progressive.jpg", rgb, quality=90, progressive=True)
    save("grey.jpg", rgb.convert("L"), quality=90)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=95)
    for i in range(1, 9):
        save(f"exif{i}.jpg", rgb, quality=90, exif=exif(i))

    # The kind of file that takes most memory a pixel; nothing to compare with.
    drawing(512, 384).convert("CMYK").save(os.path.join(OUT, "memory.jpg"), quality=30, progressive=True)

    save("lossless.webp", rgb, lossless=True)
    save("lossless-alpha.webp", rgba, lossless=True, exact=True)
    save("lossy.webp", rgb, quality=90)
    save("lossy-alpha.webp", rgba, quality=90, exact=True)
    save("exif8.webp", rgb, quality=90, exif=exif(8))

    save("rgb.bmp", rgb)
    save("palette.bmp", rgb.quantize(17))
    save("palette.gif", rgb.quantize(17))
    save("transparent.gif", rgb.quantize(17), transparency=3)
    save("two-frames.gif", rgb.quantize(17), save_all=True, append_images=[rgb.rotate(180).quantize(17)])


if __name__ == "__main__":
    main()
