"""read_safetensors.py FILE: an independent reader of the public format, for tests of our writer.

Prints the metadata texts, then a line for each tensor, sorted by name: name, dtype, shape, and the sum of its items.
"""
import json
import struct
import sys

CODES = {"F64": "d", "I64": "q", "U64": "Q", "F32": "f", "I32": "i", "U32": "I", "I16": "h", "U16": "H", "I8": "b",
         "U8": "B", "BOOL": "?"}

with open(sys.argv[1], "rb") as file:
    data = file.read()
(size,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
body = data[8 + size:]
for key, value in sorted(header.pop("__metadata__", {}).items()):
    print("%s=%s" % (key, value))
end = 0
for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
    first, last = tensor["data_offsets"]
    assert first == end, "a gap"
    end = last
assert end == len(body), "something is left"
for name, tensor in sorted(header.items()):
    first, last = tensor["data_offsets"]
    items = struct.unpack("<%d%s" % ((last - first) // struct.calcsize(CODES[tensor["dtype"]]), CODES[tensor["dtype"]]),
                          body[first:last])
    print("%s %s %s %s" % (name, tensor["dtype"], tensor["shape"], sum(items)))
