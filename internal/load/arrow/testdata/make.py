# Writes the files the tests read, with pyarrow, and what is in them as JSON.
import datetime
import json

import numpy as np

import pyarrow as pa
import pyarrow.ipc as ipc

rows = [
    {
        "prompt": f"prompt {i} ä" if i != 3 else None,
        "count": i * 7 - 9,
        "byte": i,
        "share": i / 4,
        "half": i - 0.5,
        "flag": i % 2 == 0,
        "tags": [f"t{k}" for k in range(i % 3)] if i != 4 else None,
        "conversations": [{"from": "human", "value": f"ask {i}"}, {"from": "gpt", "value": f"answer {i}"}],
        "image": {"bytes": "GIF89a" * i, "path": None},
        "kind": ["red", "green", "blue"][i % 3],
        "pair": [i, -i],
        "day": 20000 + i,
        "long": "long " * 5,
        "none": None,
    }
    for i in range(7)
]
fields = [
    ("prompt", pa.string()), ("count", pa.int64()), ("byte", pa.uint8()), ("share", pa.float32()), ("half", pa.float16()), ("flag", pa.bool_()),
    ("tags", pa.list_(pa.string())), ("conversations", pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))),
    ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("kind", pa.dictionary(pa.int8(), pa.string())),
    ("pair", pa.list_(pa.int16(), 2)), ("day", pa.date32()), ("long", pa.large_string()), ("none", pa.null()),
]

def column(name, kind):
    values = [r[name] for r in rows]
    if name == "day":
        values = [datetime.date(1970, 1, 1) + datetime.timedelta(days=v) for v in values]
    if name == "half":

        return pa.array(np.array(values, dtype=np.float16))
    if name == "image":
        values = [{"bytes": v["bytes"].encode(), "path": v["path"]} for v in values]
    return pa.array(values, type=kind)

table = pa.table([column(n, k) for n, k in fields], schema=pa.schema(fields))
for name, new, options in [
    ("stream", ipc.new_stream, None),
    ("file", ipc.new_file, None),
    ("lz4", ipc.new_file, ipc.IpcWriteOptions(compression="lz4")),
    ("zstd", ipc.new_stream, ipc.IpcWriteOptions(compression="zstd")),
    ("legacy", ipc.new_stream, ipc.IpcWriteOptions(use_legacy_format=True)),
]:
    with new(f"{name}.arrow", table.schema, options=options) as w:
        for batch in table.to_batches(max_chunksize=3):
            w.write_batch(batch)
view = pa.table({"prompt": pa.array(["short", "longer than twelve bytes", None, "another long one of these"], type=pa.string_view())})
with ipc.new_file("view.arrow", view.schema) as w:
    w.write_table(view)
with open("rows.json", "w") as f:
    json.dump(rows, f, ensure_ascii=False, indent=1)
