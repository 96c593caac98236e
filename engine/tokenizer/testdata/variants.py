#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes variants.json.gz: the settings of a tokenizer.json that the four
genuine tokenizers beside this file do not use, on one of them, with what the
reference makes of them. Needs `pip install tokenizers` (made with 0.23.3).
Run in this directory."""
import copy, gzip, json, random
from tokenizers import Tokenizer

QWEN = json.loads(gzip.open("tiny-qwen/tokenizer.json.gz").read())
SMOL = json.loads(gzip.open("tiny-smol/tokenizer.json.gz").read())
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def added(tok, content, **flags):
    n = max([max(tok["model"]["vocab"].values())] + [a["id"] for a in tok["added_tokens"]]) + 1
    entry = dict(id=n, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    entry.update(flags)
    tok["added_tokens"].append(entry)


def variants():
    t = copy.deepcopy(QWEN)
    added(t, "[MASK]", lstrip=True, special=True)
    added(t, "[R]", rstrip=True, special=True)
    added(t, "[LR]", lstrip=True, rstrip=True)
    added(t, "word", single_word=True)
    added(t, "wor", single_word=True, lstrip=True)
    added(t, "e\u0301X", normalized=True)
    added(t, "e\u0301Y", normalized=False)
    added(t, "Ab", normalized=True, special=True)
    added(t, "AbC", normalized=True)
    added(t, " the", normalized=False)
    added(t, "\u0120q", normalized=False)
    yield "added", t
    t = copy.deepcopy(QWEN)
    t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3
    t["model"]["ignore_merges"] = True
    t["normalizer"] = None
    yield "llama3", t
    t = copy.deepcopy(QWEN)
    t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = GPT2
    t["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed", invert=True)
    t["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = True
    yield "gpt2_split_prefix_space_last", t
    t = copy.deepcopy(SMOL)
    t["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield "gpt2_prefix_space", t
    t = copy.deepcopy(SMOL)
    t["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = False
    yield "digit_runs", t
    t = copy.deepcopy(SMOL)
    t["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    t["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    yield "no_split", t
    for fuse in (False, True):
        t = copy.deepcopy(SMOL)
        t["model"].update(unk_token="<|endoftext|>", fuse_unk=fuse)
        yield f"unk_fuse_{fuse}".lower(), t
    t = copy.deepcopy(QWEN)
    t["model"]["merges"] = [" ".join(m) for m in t["model"]["merges"]]
    t["model"]["merges"] += t["model"]["merges"][:40]  # a later one of the same pair counts
    yield "string_merges_twice", t


POOL = ["[MASK]", "[R]", "[LR]", "word", "wor", "e\u0301X", "éX", "e\u0301Y", "éY", "Ab", "AbC", " the", "the", "q", " ", "  ", "\n",
        "\t", "a", "_", "1", "12", "123", "1234", "12345", "'s", "'ſ", "'LL", "!", "中", "\u0301", "\u00a0", "<think>", "<|im_end|>",
        "\u0120q", "\u0120", "hello", " of", "\x00", "\x05", "\x06\x07", "\u0345" * 40, "a" + "\u0301\u0316" * 25, "\uac00\u11a8",
        "\u1100\u1161", "here", "\r\n", "٣", "½", "\U0001f642", "\u034f", "x" * 40, " " * 7]

random.seed(3)
out = []
for name, tok in variants():
    hf = Tokenizer.from_str(json.dumps(tok))
    cases = []
    for i in range(160):
        text = "".join(random.choice(POOL) for _ in range(random.randint(1, 9)))
        hf.encode_special_tokens = False
        ids = hf.encode(text, add_special_tokens=False).ids
        decoded = hf.decode(ids, skip_special_tokens=False)
        skipped = hf.decode(ids, skip_special_tokens=True)
        hf.encode_special_tokens = True
        plain = hf.encode(text, add_special_tokens=False).ids
        cases.append(dict(text=text, ids=ids, decoded=decoded, decoded_skip_special=skipped, ids_special_as_text=plain))
    out.append(dict(name=name, tokenizer=tok, cases=cases))
with gzip.GzipFile("variants.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps(out).encode())
