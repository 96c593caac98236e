#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ask the reference reader (pip install safetensors) what it makes of odd headers.

    reference.py > reference.json          the cases of TestReference
    reference.py --random N > file.json    N mutations of them, for
                                           WINDHOVER_SAFETENSORS_CASES=file.json go test -run TestReference

A line holds the header in base64, the number of data bytes after it, and what the
reader says: null for a refusal, else name -> [dtype, shape, first byte, bytes].
"""
import base64, json, random, struct, sys
import safetensors


def verdict(header, data):
    file = struct.pack("<Q", len(header)) + header + bytes(i % 251 for i in range(data))
    try:
        tensors = safetensors.deserialize(file)
    except safetensors.SafetensorError:
        return None
    return {name: [t["dtype"], t["shape"], t["data"][0] if t["data"] else 0, len(t["data"])] for name, t in tensors}


def one(name, header, data=4):
    if isinstance(header, str):
        header = header.encode()
    return {"name": name, "header": base64.b64encode(header).decode(), "data": data, "tensors": verdict(header, data)}


def entry(dtype="F32", shape="[1]", offsets="[0,4]", more=""):
    return '{"w":{%s"dtype":"%s","shape":%s,"data_offsets":%s}}' % (more, dtype, shape, offsets)


def cases():
    plain = entry()
    inner = plain[5:-1]
    yield "plain", plain, 4
    yield "same tensor twice", '{"w":%s,"w":%s}' % (inner, inner), 4
    yield "tensor twice, last counts", '{"w":{"dtype":"U8","shape":[9],"data_offsets":[100,109]},"w":%s}' % inner, 4
    yield "tensor twice, by escape", '{"w":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"\\u0077":%s}' % inner, 4
    yield "tensor twice, first is wrong", '{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]},"w":%s}' % inner, 4
    yield "tensor twice, two places", '{"w":%s,"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' % inner, 8
    yield "metadata twice", '{"__metadata__":{},"__metadata__":{}}', 0
    yield "metadata twice, by escape", '{"__metadata__":{},"\\u005f_metadata__":{}}', 0
    yield "metadata key twice", '{"__metadata__":{"a":"1","a":"2"}}', 0
    yield "metadata null", '{"__metadata__":null}', 0
    yield "metadata nil", '{"__metadata__":nil}', 0
    yield "metadata of numbers", '{"__metadata__":{"a":1}}', 0
    yield "metadata of maps", '{"__metadata__":{"a":{"b":"c"}}}', 0
    yield "metadata of null", '{"__metadata__":{"a":null}}', 0
    yield "metadata list", '{"__metadata__":[]}', 0
    yield "metadata text", '{"__metadata__":"a"}', 0
    yield "500 metadata entries", '{"__metadata__":{%s}}' % ",".join('"k%d":""' % i for i in range(500)), 0
    yield "dtype twice", entry(more='"dtype":"F32",'), 4
    yield "shape twice", entry(more='"shape":[1],'), 4
    yield "offsets twice", entry(more='"data_offsets":[0,4],'), 4
    yield "unknown attribute", entry(more='"x":[[{"y":null}],true,-1.5e3,"s"],'), 4
    yield "unknown attribute twice", entry(more='"x":1,"x":2,'), 4
    for n in (124, 125, 126, 127):
        yield "%d arrays deep" % n, entry(more='"x":' + "[" * n + "]" * n + ","), 4
        yield "%d objects deep" % n, entry(more='"x":' + '{"a":' * n + "1" + "}" * n + ","), 4
    for v in ("1e308", "1e309", "-1e999", "0." + "1" * 100, "1" * 309, "1" * 310, "-0", "00", "1.", ".5", "1e", "+1", "NaN", "1E+5",
              "-", '"\\ud800"', '"\\ud83d\\ude00"', '"\\udc00"', '"\\ud800\\ud800"', '"\\x"', '"\\u12g4"', '"\\u00E9"', '"\\/\\b\\f\\n\\r\\t\\\\\\""', "tru", "True", "'a'", ""):
        yield "unknown attribute " + v[:20], entry(more='"x":%s,' % v), 4
    yield "trailing space", plain + " \t\n\r ", 4
    yield "trailing NUL", plain + "\0", 4
    yield "trailing text", plain + "x", 4
    yield "second object", plain + "{}", 4
    yield "trailing comma", plain[:-1] + ",}", 4
    yield "comment", "{/**/}", 0
    yield "form feed", "{\f}", 0
    yield "byte order mark", b"\xef\xbb\xbf" + plain.encode(), 4
    yield "array", "[]", 0
    yield "nothing", "", 0
    yield "space alone", "  ", 0
    yield "no tensors", "{}", 0
    yield "no tensors, data", "{}", 1
    yield "tensor null", '{"w":null}', 0
    yield "tensor text", '{"w":"F32"}', 0
    yield "no dtype", '{"w":{"shape":[1],"data_offsets":[0,4]}}', 4
    yield "no shape", '{"w":{"dtype":"F32","data_offsets":[0,4]}}', 4
    yield "no offsets", '{"w":{"dtype":"F32","shape":[1]}}', 4
    for s in ("[1.0]", "[1e0]", "[-0]", "[-1]", "[01]", "[null]", "null", '["1"]', "[true]", "[[1]]", "{}", "[1,]", "[1 1]", "[,1]", "[ 1 ,\n1 ]"):
        yield "shape " + s, entry(shape=s), 4
    yield "scalar", entry(shape="[]"), 4
    yield "1000 dimensions", entry(shape="[" + ",".join(["1"] * 1000) + "]"), 4
    top = 2**64 - 1
    for s in ("[0]", "[0,3]", "[%d,0]" % top, "[0,%d,%d]" % (top, top), "[%d,%d,0]" % (top, top), "[%d,0]" % (top + 1), "[%d,0]" % 10**30,
              "[4294967296,4294967296]", "[4294967296,4294967296,0]", "[576460752303423488]", "[576460752303423487,0]"):
        yield "no bytes, shape " + s, entry(shape=s, offsets="[0,0]"), 0
    for o in ("[0]", "[0,4,4]", "[4,0]", "[0,8]", "[0,3]", "[4,8]", "[0,4.0]", "[-0,4]", "[0,%d]" % top, "[%d,%d]" % (top - 3, top), "[0,%d]" % (top + 1), "{}", "null"):
        yield "offsets " + o, entry(offsets=o), 4
    yield "U8 to the top", entry("U8", "[%d]" % top, "[0,%d]" % top), 4
    yield "bytes after", plain, 5
    yield "byte missing", plain, 3
    yield "hole in front", entry(offsets="[4,8]"), 8
    two = '{"v":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]},"w":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}}'
    yield "two", two % (1, 0, 4, 1, 4, 8), 8
    yield "two, the other way", two % (1, 4, 8, 1, 0, 4), 8
    yield "overlap", two % (2, 0, 8, 2, 4, 12), 12
    yield "same bytes", two % (1, 0, 4, 1, 0, 4), 4
    yield "hole between", two % (1, 0, 4, 1, 8, 12), 12
    yield "empty between", two % (1, 0, 4, 0, 4, 4), 4
    yield "empty in front", two % (1, 0, 4, 0, 0, 0), 4
    yield "empty inside", two % (2, 0, 8, 0, 4, 4), 8
    yield "empty past the end", two % (1, 0, 4, 0, 8, 8), 4
    for d in ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32",
              "F64", "I64", "U64", "C64", "F4", "F6_E2M3", "F6_E3M2", "f32", "F8_E4M3FN", "C128", "U4", "I4", "", "\\u004632"):
        for n in (1, 2, 4, 8):
            yield "4 of %s in %d" % (d, n * 2 if n != 1 else 3), entry(d, "[4]", "[0,%d]" % (n * 4 if n != 1 else 3)), n * 4 if n != 1 else 3
        yield "1 of %s in 1" % d, entry(d, "[1]", "[0,1]"), 1
        yield "4 of %s in 2" % d, entry(d, "[4]", "[0,2]"), 2
    for n in ("", "\\ud83d\\ude00", "\\u0000", "é", "😀", "\x7f", "a/b", "\\ud800", "\\udc00x", "a\\", "\t", "__METADATA__"):
        yield "name " + n, plain.replace('"w"', '"%s"' % n), 4
    for n in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98\x80"):
        yield "name of bytes " + n.hex(), plain.encode().replace(b'"w"', b'"' + n + b'"'), 4
        yield "unknown text of bytes " + n.hex(), entry(more='"x":"@",').encode().replace(b"@", n), 4
        yield "metadata of bytes " + n.hex(), b'{"__metadata__":{"' + n + b'":""}}', 0


def mutations(count):
    all = [c for c in cases() if len(c[1]) < 400]
    rng = random.Random(1)
    bits = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"9", b"-", b" ", b"\xc3\xa9", b"\\u0041", b"null", b"1e5", b'"w"', b'"x":1,', b"F16", b"BF16"]
    for i in range(count):
        name, header, data = rng.choice(all)
        header = bytearray(header.encode() if isinstance(header, str) else header)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            at = rng.randint(0, len(header))
            kind = rng.randint(0, 3)
            if kind == 0:
                header[at:at] = rng.choice(bits)
            elif kind == 1:
                del header[at:at + rng.randint(1, 3)]
            elif kind == 2 and at < len(header):
                header[at] ^= 1 << rng.randint(0, 7)
            else:
                other = rng.choice(all)[1]
                other = other.encode() if isinstance(other, str) else other
                header[at:at + 8] = other[at:at + 8]
        yield "mutation %d of %s" % (i, name), bytes(header), data


print("[")
lines = mutations(int(sys.argv[2])) if sys.argv[1:2] == ["--random"] else cases()
print(",\n".join(json.dumps(one(*c)) for c in lines))
print("]")
