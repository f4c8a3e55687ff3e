# Decodes HPACK by nghttp2 (through its C library) and by python3-hpack. Each line of standard input is one connection: its
# header blocks in hexadecimal, separated by commas. Each line of standard output has a word of each decoder for each block:
# the SHA-1 of what it decoded to, or "error", behind which nothing of the line is decoded.
import ctypes
import hashlib
import sys

from hpack import Decoder, HPACKError


class NameValue(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.POINTER(ctypes.c_uint8)),
        ("value", ctypes.POINTER(ctypes.c_uint8)),
        ("name_length", ctypes.c_size_t),
        ("value_length", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    ]


library = ctypes.CDLL("libnghttp2.so.14")
inflate = library.nghttp2_hd_inflate_hd2
inflate.restype = ctypes.c_ssize_t
inflate.argtypes = [
    ctypes.c_void_p,
    ctypes.POINTER(NameValue),
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
]
EMITTED, FINAL = 2, 1


class Nghttp2:
    def __init__(self):
        self.inflater = ctypes.c_void_p()
        library.nghttp2_hd_inflate_new(ctypes.byref(self.inflater))

    def decode(self, block):
        memory = ctypes.create_string_buffer(block, max(1, len(block)))
        at, fields = 0, []
        field, flags = NameValue(), ctypes.c_int()
        while True:
            flags.value = 0
            read = inflate(
                self.inflater, field, flags, ctypes.byref(memory, at), len(block) - at, 1
            )
            if read < 0:
                return None
            at += read
            if flags.value & EMITTED:
                name = ctypes.string_at(field.name, field.name_length)
                fields.append((name, ctypes.string_at(field.value, field.value_length)))
            if flags.value & FINAL:
                library.nghttp2_hd_inflate_end_headers(self.inflater)
                return fields
            if read == 0 and not flags.value & EMITTED:
                return None

    def close(self):
        library.nghttp2_hd_inflate_del(self.inflater)


class PythonHpack:
    def __init__(self):
        self.decoder = Decoder(max_header_list_size=2**30)

    def decode(self, block):
        try:
            return self.decoder.decode(block, raw=True)
        except HPACKError:
            return None

    def close(self):
        pass


def digest(fields):
    if fields is None:
        return "error"
    sha = hashlib.sha1()
    for name, value in fields:
        sha.update(b"%d:%s%d:%s" % (len(name), name, len(value), value))
    return sha.hexdigest()


def judge(decoder, blocks):
    words = []
    for block in blocks:
        words.append(digest(decoder.decode(block)))
        if words[-1] == "error":
            break
    decoder.close()
    return " ".join(words)


for line in sys.stdin:
    blocks = [bytes.fromhex(word) for word in line.rstrip("\n").split(",")]
    print(judge(Nghttp2(), blocks), judge(PythonHpack(), blocks), sep="|", flush=True)
