# SPDX-License-Identifier: Apache-2.0
"""Takes out of the large set of goldens what the tests of this package need to
run anywhere: the tower's weights, the prompts, and of the pixel values the
SHA-256 of their little-endian float32.

    python3 extract_golden.py ../../../../shared/golden/models/qwen3vl-tiny
"""
import gzip
import hashlib
import json
import os
import struct
import sys

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qwen3vl-tiny")


def main():
    src = sys.argv[1]
    with open(os.path.join(src, "model.safetensors"), "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    out, body = {}, b""
    for name in sorted(k for k in head if k.startswith("model.visual.")):
        t = head[name]
        a, b = t["data_offsets"]
        out[name] = {"dtype": t["dtype"], "shape": t["shape"], "data_offsets": [len(body), len(body) + b - a]}
        body += data[a:b]
    text = json.dumps(out, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with gzip.GzipFile(os.path.join(OUT, "tower.safetensors.gz"), "wb", mtime=0) as f:
        f.write(struct.pack("<Q", len(text)) + text + body)

    with open(os.path.join(src, "golden", "golden.json")) as f:
        vision = json.load(f)["vision"]
    keep = ("images", "frames", "fps", "ids", "grid_thw", "position_ids", "rope_delta", "expanded_text")
    prompts = {k: {x: v[x] for x in keep if x in v} for k, v in vision["prompts"].items()}
    images = {k: {x: v[x] for x in ("size_wh", "resized_wh", "grid_thw")} for k, v in vision["images"].items()}
    pixels = {}
    for name in ("a", "video"):
        with open(os.path.join(src, "golden", f"pixel_values_{name}.npy"), "rb") as f:
            b = f.read()
            (n,) = struct.unpack("<H", b[8:10])
            pixels[name] = hashlib.sha256(b[10 + n:]).hexdigest()
    with open(os.path.join(OUT, "golden", "prompts.json"), "w") as f:
        json.dump({"images": images, "prompts": prompts, "pixel_values": pixels}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
