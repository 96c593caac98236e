#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the header and the directory of VQF files, and check that they add up.

Stands alone: Python's standard library and docs/FORMAT.md, nothing of the Go
code. It reads the header and the directory only, and the data too with
--checksum (slow: one multiplication a byte, in Python). Of an encrypted file it
shows the tag, of a signed one the signature; it checks neither, which would
need SM2, SM3 and SM4: windhover verify does.

Exit status: 0 all checks pass, 1 a check fails or a file cannot be read,
2 wrong usage.
"""

import argparse
import json
import os
import struct
import sys

MAGIC = 0x57465146  # on disk: FQFW
DIRECTORY = 448
ENTRY = 64
ALIGN = 64
ENC = 0x80
SIGNED = 0x100
MOE = 0x200

FLAGS = ["Q8_8X8", "Q4_4X4", "X8", "Q8BUF_Q4", "G256", "EMB_F16", "VISION", "ENC", "SIGNED", "MOE"]

# FORMAT.md section 2.1: name and struct code of each word from offset 16 on.
ARCH = [
    ("dim", "I"), ("n_layers", "I"), ("n_heads", "I"), ("n_kv_heads", "I"), ("head_dim", "I"), ("ffn_dim", "I"),
    ("vocab_size", "I"), ("max_seq_len", "I"), ("rope_theta", "f"), ("norm_eps", "f"), ("bos_id", "I"), ("eos_id", "I"),
    ("has_q_norm", "I"), ("has_mrope", "I"), ("head_dim_full", "I"), ("kv_lora_rank", "I"), ("has_vision", "I"),
    ("vis_depth", "I"), ("vis_hidden", "I"), ("vis_heads", "I"), ("vis_ffn", "I"), ("vis_patch", "I"),
    ("vis_temporal", "I"), ("vis_merge", "I"), ("vis_out_dim", "I"), ("vis_in_chan", "I"), ("vis_max_pos", "I"),
    ("vis_ds_count", "I"), ("mrope_n_sec", "I"), ("vis_ds_idx", "4i"), ("mrope_sections", "4i"),
    ("vision_start_id", "I"), ("vision_end_id", "I"), ("image_token_id", "I"), ("video_token_id", "I"),
]
EXPERTS = [("n_experts", "I"), ("moe_ffn", "I"), ("top_k", "I"), ("shared_experts", "I")]

# qtype: name, values a block, bytes a block.
QTYPES = {1: ("F32", 1, 4), 2: ("Q8_0", 32, 34), 3: ("Q4_0", 32, 18), 4: ("Q4_8X8L", 32, 18), 5: ("F16", 1, 2)}


class Malformed(Exception):
    """The file cannot be taken apart any further."""


def round_up(x, a):
    return -(-x // a) * a


def formula(qtype, values):
    """Bytes of so many values, None for an unknown type."""
    if qtype not in QTYPES:
        return None
    _, block, size = QTYPES[qtype]
    return -(-values // block) * size


def words(raw, at, fields):
    """Decode the named words of `fields` from `raw` at `at`."""
    out = {}
    for name, code in fields:
        v = struct.unpack_from("<" + code, raw, at)
        out[name] = list(v) if len(v) > 1 else v[0]
        at += struct.calcsize(code)
    return out


def read_header(raw, size):
    """FORMAT.md section 2: both headers, told apart by which one fits the file's size."""
    if size < 432 + ENTRY or len(raw) < DIRECTORY:
        raise Malformed(f"{size} bytes are too few for a header and one entry")
    magic, version, flags, n = struct.unpack_from("<4I", raw, 0)
    if magic != MAGIC:
        raise Malformed(f"magic is {raw[:4]!r}, want b'FQFW'")
    if version not in (2, 3):
        raise Malformed(f"version {version} unsupported (need 2/3)")
    trailer = 32 if flags & ENC else 8
    dir_end = DIRECTORY + ENTRY * n
    fits, tried = [], []
    for fields, at in ((45, 200), (41, 184)):
        data, end = struct.unpack_from("<2Q", raw, at)
        tried.append(f"{fields} fields: data_offset {data}, file_len {end}")
        if data and end and data % 64 == 0 and dir_end <= data < size and end + trailer == size and end > data:
            fits.append((fields, at, data, end))
    if len(fits) != 1:
        raise Malformed(f"header layout undetermined for {size} bytes, {n} tensors, trailer {trailer} ({'; '.join(tried)})")
    fields, at, data, end = fits[0]
    iv, reserved, block = raw[at + 16:at + 32], raw[at + 32:at + 48], raw[at + 48:at + 248]
    if any(reserved) or any(raw[at - 4:at]):
        raise Malformed("reserved bytes of the header are not zero")
    if any(iv) and not flags & ENC:
        raise Malformed("enc_iv is set, but the ENC flag is not")
    signature = read_signature(block)
    if signature is not None and not flags & SIGNED:
        raise Malformed("the signature block is set, but the SIGNED flag is not")
    arch = words(raw, 16, ARCH)
    arch.update(words(raw, 180, EXPERTS) if fields == 45 else {name: 0 for name, _ in EXPERTS})
    return {
        "version": version, "flags": flags, "flag_names": [name for i, name in enumerate(FLAGS) if flags >> i & 1],
        "header": fields, "n_tensors": n, "arch": arch, "data_offset": data, "file_len": end, "trailer": trailer,
        "encrypted": bool(flags & ENC), "signed": bool(flags & SIGNED), "enc_iv": iv.hex(), "signature": signature,
    }


def read_signature(block):
    """FORMAT.md section 2.2: the 200 bytes of the signature block, None if they are zero."""
    if not any(block):
        return None
    size, reserved = struct.unpack_from("<2I", block, 192)
    if size > 32 or any(block[160 + size:192]) or reserved:
        raise Malformed("the signature block is malformed: id longer than 32 bytes, or bytes after it")
    return {"public_key": block[:64].hex(), "r": block[64:96].hex(), "s": block[96:128].hex(), "digest": block[128:160].hex(),
            "id": block[160:160 + size].decode("ascii", "backslashreplace")}


def read_directory(raw, n):
    """FORMAT.md section 3.1."""
    if len(raw) < n * ENTRY:
        raise Malformed(f"the directory of {n} entries is cut short")
    out = []
    for i in range(n):
        name, qtype, rows, cols, pad, offset, size = struct.unpack_from("<32s4I2Q", raw, i * ENTRY)
        name = name.split(b"\0")[0].decode("ascii", "backslashreplace")
        out.append({"name": name, "qtype": qtype, "type": QTYPES.get(qtype, (f"qtype({qtype})",))[0],
                    "rows": rows, "cols": cols, "offset": offset, "bytes": size})
    return out


def expected(a, tensor):
    """Values that the architecture gives a tensor, by name; None for an unknown name."""
    nl, dim, ff, vc, ne = a["n_layers"], a["dim"], a["ffn_dim"], a["vocab_size"], a["n_experts"]
    qo, ko = a["n_heads"] * a["head_dim"], a["n_kv_heads"] * a["head_dim"]
    matrices = {"q": nl * qo * dim, "k": nl * ko * dim, "v": nl * ko * dim, "o": nl * dim * qo,
                "gate": nl * ff * dim, "up": nl * ff * dim, "down": nl * dim * ff, "lm": vc * dim}
    name = tensor["name"]
    family, _, matrix = name.partition("_")
    if family in ("q8", "q4", "x8"):
        return matrices.get(matrix)
    vd, vh, vf, od, ds = a["vis_depth"], a["vis_hidden"], a["vis_ffn"], a["vis_out_dim"], a["vis_ds_count"]
    mi = vh * a["vis_merge"] ** 2
    known = {
        "token_embed": vc * dim, "final_norm": dim, "attn_norm": nl * dim, "ffn_norm": nl * dim,
        "q_norm": nl * a["head_dim"], "k_norm": nl * a["head_dim"], "moe_router": nl * ne * dim,
        "v_q8_qkv": vd * 3 * vh * vh, "v_q8_proj": vd * vh * vh, "v_q8_fc1": vd * vf * vh,
        "v_q8_fc2": vd * vh * round_up(vf, 32),
        "v_patch_embed": vh * 3 * a["vis_temporal"] * a["vis_patch"] ** 2, "v_patch_bias": vh,
        "v_pos_embed": a["vis_max_pos"] * vh, "v_qkv_bias": vd * 3 * vh, "v_proj_bias": vd * vh,
        "v_norm1_w": vd * vh, "v_norm1_b": vd * vh, "v_norm2_w": vd * vh, "v_norm2_b": vd * vh,
        "v_fc1_bias": vd * vf, "v_fc2_bias": vd * vh,
        "v_merger_nw": vh, "v_merger_nb": vh, "v_merger_f1w": mi * mi, "v_merger_f1b": mi,
        "v_merger_f2w": mi * od, "v_merger_f2b": od,
        "v_ds_nw": ds * mi, "v_ds_nb": ds * mi, "v_ds_f1w": ds * mi * mi, "v_ds_f1b": ds * mi,
        "v_ds_f2w": ds * mi * od, "v_ds_f2b": ds * od,
    }
    return known.get(name)


def group_of(name):
    if name == "token_embed":
        return "embedding"
    if name in ("final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm"):
        return "norms"
    if name == "moe_router":
        return "router"
    if name in ("t_tokenizer", "t_meta"):
        return "embedded"
    for prefix in ("q8_", "q4_", "x8_", "v_q8_", "v_merger_", "v_ds_"):
        if name.startswith(prefix):
            return prefix + "*"
    return "v small F32" if name.startswith("v_") else "unknown"


def group_sums(arch, tensors):
    """Sums by group, with what the architecture gives; None where it gives nothing."""
    groups = {}
    for t in tensors:
        g = groups.setdefault(group_of(t["name"]), {"count": 0, "bytes": 0, "expected": 0})
        g["count"] += 1
        g["bytes"] += t["bytes"]
        values = expected(arch, t)
        size = None if values is None else formula(t["qtype"], values)
        g["expected"] = None if size is None or g["expected"] is None else g["expected"] + size
    return groups


def check(header, tensors, groups, size):
    """The assertions of FORMAT.md section 3.2, each with a detail for the eye."""
    out = []

    def line(name, bad, good):
        out.append({"name": name, "ok": not bad, "detail": bad or good})

    def first(faults):
        return next((f for f in faults if f), None)

    line("offsets are multiples of 64",
         first(f"{t['name']}: {t['offset']}" for t in tensors if t["offset"] % ALIGN), f"{len(tensors)} tensors")
    start = tensors[0]["offset"] if tensors else header["data_offset"]
    line("first offset = data_offset",
         start != header["data_offset"] and f"{start}, want {header['data_offset']}", str(start))
    ends = [round_up(t["offset"] + t["bytes"], ALIGN) for t in tensors]
    line("each offset = rounded end before",
         first(f"{t['name']}: {t['offset']}, want {end}" for end, t in zip(ends, tensors[1:]) if t["offset"] != end),
         "no gap, no overlap")
    last = ends[-1] if ends else header["data_offset"]
    line("last rounded end = file_len", last != header["file_len"] and f"{last}, want {header['file_len']}", str(last))
    line("bytes by formula",
         first(f"{t['name']}: {t['bytes']}, want {formula(t['qtype'], t['rows'] * t['cols'])}" for t in tensors
               if t["qtype"] in QTYPES and t["bytes"] != formula(t["qtype"], t["rows"] * t["cols"])),
         "rows * cols in the type's size")
    whole = header["file_len"] + header["trailer"]
    line("size = file_len + trailer", whole != size and f"{size}, want {whole}", f"{header['file_len']} + {header['trailer']} = {size}")
    line("group sums as the architecture gives",
         first(f"{name}: {g['bytes']}, want {g['expected']}" for name, g in groups.items()
               if g["expected"] is not None and g["bytes"] != g["expected"]),
         ", ".join(f"{name} {g['bytes']}" for name, g in groups.items()))
    seen = set()
    line("names are there once", first(t["name"] for t in tensors if t["name"] in seen or seen.add(t["name"])), f"{len(tensors)} names")
    return out


def checksum(f, header):
    """FNV-1a over directory and data, FORMAT.md section 3.4."""
    h = 0xCBF29CE484222325
    spans = [(DIRECTORY, DIRECTORY + ENTRY * header["n_tensors"]), (header["data_offset"], header["file_len"])]
    for at, end in spans:
        f.seek(at)
        while at < end:
            chunk = f.read(min(1 << 20, end - at))
            if not chunk:
                raise Malformed("the data is cut short")
            for byte in chunk:
                h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
            at += len(chunk)
    return h


def parse(path, with_checksum):
    """Everything about one file, as --json prints it."""
    size = os.path.getsize(path)
    result = {"file": path, "size": size, "checks": []}
    try:
        with open(path, "rb") as f:
            header = read_header(f.read(DIRECTORY), size)
            result.update(header)
            tensors = read_directory(f.read(ENTRY * header["n_tensors"]), header["n_tensors"])
            result["tensors"] = tensors
            result["groups"] = group_sums(header["arch"], tensors)
            result["checks"] = check(header, tensors, result["groups"], size)
            f.seek(header["file_len"])
            trailer = f.read(header["trailer"])
            if header["trailer"] == 8:
                stored = struct.unpack("<Q", trailer)[0]
                result["stored_checksum"] = f"0x{stored:016x}"
                if with_checksum and stored:
                    got = checksum(f, header)
                    result["checks"].append({"name": "checksum", "ok": got == stored, "detail": f"stored 0x{stored:016x}, computed 0x{got:016x}"})
            else:
                result["stored_tag"] = trailer.hex()
    except Malformed as e:
        result["checks"].append({"name": "structure", "ok": False, "detail": str(e)})
    result["ok"] = all(c["ok"] for c in result["checks"])
    return result


def show(r):
    print(f"{r['file']}: {r['size']} bytes")
    if "arch" in r:
        print(f"  version {r['version']}, {r['header']}-field header, flags 0x{r['flags']:03x} {'|'.join(r['flag_names']) or '0'}")
        print(f"  {r['n_tensors']} tensors, data_offset {r['data_offset']}, file_len {r['file_len']}, trailer {r['trailer']} bytes {r.get('stored_checksum', r.get('stored_tag', ''))}".rstrip())
        if r["encrypted"]:
            print(f"  encrypted: enc_iv {r['enc_iv']}; the tag is not checked here")
        if r["signed"] and r["signature"]:
            g = r["signature"]
            print(f"  signed: id {g['id']}, public key {g['public_key']}, digest {g['digest']}; not checked here")
        for name, value in r["arch"].items():
            if isinstance(value, float):
                value = f"{value:.9g}"
            print(f"    {name:16} {value}")
    for t in r.get("tensors", []):
        print(f"  {t['name']:16} {t['type']:8} {t['rows']:>10} x {t['cols']:<10} at {t['offset']:<12} {t['bytes']:>12} bytes")
    for name, g in r.get("groups", {}).items():
        print(f"  {name:16} {g['count']:>3} tensors {g['bytes']:>14} bytes")
    for c in r["checks"]:
        print(f"{'PASS' if c['ok'] else 'FAIL'}: {c['name']}: {c['detail']}")


def main():
    p = argparse.ArgumentParser(description="Print the header and directory of VQF files and check that they add up.")
    p.add_argument("file", nargs="+", metavar="FILE")
    p.add_argument("--json", action="store_true", help="one JSON array with an object a file, instead of text")
    p.add_argument("--checksum", action="store_true", help="read the data too and compare the checksum (slow)")
    args = p.parse_args()
    results = []
    for path in args.file:
        try:
            results.append(parse(path, args.checksum))
        except OSError as e:
            results.append({"file": path, "ok": False, "checks": [{"name": "read", "ok": False, "detail": e.strerror or str(e)}], "size": 0})
    if args.json:
        print(json.dumps(results, indent=1))
    else:
        for r in results:
            show(r)
    return 0 if all(r["ok"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
