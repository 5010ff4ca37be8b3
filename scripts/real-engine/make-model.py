"""Makes a small Llama with random weights and a vocabulary of its own, in one folder.

    make-model.py FOLDER TEXT [--gguf] [--weights]

The folder gets tokenizer.json, tokenizer_config.json and config.json as models are published, which
is all that an engine needs that draws its own weights (vLLM with --load-format dummy); with --gguf
also model.gguf for llama.cpp, and with --weights model.safetensors for transformers: on a GPU a
model of a billion weights, since the small one would measure the engine's Python alone. TEXT is any English text; the merges of the vocabulary are learned
from it. Everything follows from a fixed seed.
"""

import argparse
import collections
import json
import pathlib
import re

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED, CONTEXT, VOCAB = 256, 4, 4, 2, 688, 8192, 1024
SPECIALS = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def byte_letters():
    """The printable letter that byte-level vocabularies write for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def learn_merges(text, count):
    """Byte-pair merges, the commonest pair first, ties by spelling."""
    letters = byte_letters()
    words = collections.Counter(
        tuple(letters[b] for b in w.encode()) for w in re.findall(r" ?[A-Za-z]+| ?[^\sA-Za-z]+", text)
    )
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            raise SystemExit(f"the text gives only {len(merges)} of {count} merges")
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        words = collections.Counter({joined(w, best): n for w, n in words.items()})
    return merges


def joined(word, pair):
    out, i = [], 0
    while i < len(word):
        if word[i : i + 2] == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def vocabulary(text):
    letters = byte_letters()
    merges = learn_merges(text, VOCAB - 256 - len(SPECIALS))
    tokens = [letters[b] for b in range(256)]
    seen = set(tokens)
    kept = []
    for a, b in merges:
        if a + b not in seen:  # two pairs can spell the same
            seen.add(a + b)
            tokens.append(a + b)
            kept.append((a, b))
    return tokens, kept


def write_published(folder, tokens, merges):
    ids = {t: i for i, t in enumerate(tokens)}
    added = [
        {"id": len(tokens) + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, s in enumerate(SPECIALS)
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": ids, "merges": [f"{a} {b}" for a, b in merges]},
    }))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIALS[0], "eos_token": SPECIALS[1],
        "add_bos_token": False, "model_max_length": CONTEXT, "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": FEED, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HIDDEN // HEADS, "vocab_size": len(tokens) + len(SPECIALS),
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "bos_token_id": len(tokens), "eos_token_id": len(tokens) + 1, "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }))


def write_gguf(folder, tokens, merges):
    import gguf
    import numpy

    names = tokens + SPECIALS
    w = gguf.GGUFWriter(str(folder / "model.gguf"), "llama")
    w.add_name("random-llama")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FEED)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(10000.0)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    w.add_vocab_size(len(names))
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(names)
    w.add_token_types([gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(SPECIALS))
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_bos_token_id(len(tokens))
    w.add_eos_token_id(len(tokens) + 1)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)

    draws = numpy.random.default_rng(0)

    def put(name, *shape):
        w.add_tensor(name, draws.normal(0, 0.02, shape).astype(numpy.float32))

    def ones(name):
        w.add_tensor(name, numpy.ones(HIDDEN, dtype=numpy.float32))

    small = HIDDEN // HEADS * KV_HEADS
    put("token_embd.weight", len(names), HIDDEN)
    put("output.weight", len(names), HIDDEN)
    ones("output_norm.weight")
    for i in range(LAYERS):
        ones(f"blk.{i}.attn_norm.weight")
        ones(f"blk.{i}.ffn_norm.weight")
        put(f"blk.{i}.attn_q.weight", HIDDEN, HIDDEN)
        put(f"blk.{i}.attn_k.weight", small, HIDDEN)
        put(f"blk.{i}.attn_v.weight", small, HIDDEN)
        put(f"blk.{i}.attn_output.weight", HIDDEN, HIDDEN)
        put(f"blk.{i}.ffn_gate.weight", FEED, HIDDEN)
        put(f"blk.{i}.ffn_up.weight", FEED, HIDDEN)
        put(f"blk.{i}.ffn_down.weight", HIDDEN, FEED)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_weights(folder):
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    config.eos_token_id = None  # its server cannot be told to go on behind an end
    if torch.cuda.is_available():
        config.update({"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
                       "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 64})
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.bfloat16)
        config.dtype = torch.bfloat16
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("text", type=pathlib.Path)
    args.add_argument("--gguf", action="store_true")
    args.add_argument("--weights", action="store_true")
    args = args.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    tokens, merges = vocabulary(args.text.read_text())
    write_published(args.folder, tokens, merges)
    if args.gguf:
        write_gguf(args.folder, tokens, merges)
    if args.weights:
        write_weights(args.folder)


main()
