#!/usr/bin/env python3
"""The same from another language: any that can call C. No package is needed.

    python3 story.py /opt/reprise/lib/libreprise.so models/reprise-tiny
"""

import ctypes
import json
import sys

TEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.reprise_last_error.restype = ctypes.c_char_p
    engine = ctypes.c_void_p()
    arguments = (ctypes.c_char_p * 3)(sys.argv[2].encode(), b"--max-model-len", b"512")
    if library.reprise_load(arguments, ctypes.c_size_t(3), None, None, ctypes.byref(engine)) != 0:
        sys.exit(library.reprise_last_error().decode())
    body = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "stream": True}

    @TEXT
    def print_text(event, _):
        choices = json.loads(event)["choices"]
        print("".join(choice["text"] for choice in choices), end="", flush=True)
        return 0

    status = library.reprise_post(engine, b"/v1/completions", json.dumps(body).encode(), print_text, None, None)
    print()
    if status != 0:
        sys.exit(library.reprise_last_error().decode())
    library.reprise_unload(engine)


if __name__ == "__main__":
    main()
