"""llama.cpp for packed_accuracy.py, through the C functions that the PyPI package xllamacpp exports: logits of every
position, and the quantisation of rows.

The structs of options have other fields in each version, and only their defaults are used here. So they are blocks of bytes
that are longer than any version's struct, which x86-64 passes like the struct itself.
"""

import ctypes
import importlib.util
from pathlib import Path

import numpy as np

NUM_TOKENS = 1024  # of a text, at most


class Options(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 128)]


class Batch(ctypes.Structure):
    _fields_ = [("num_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embedding", ctypes.c_void_p),
                ("position", ctypes.POINTER(ctypes.c_int32)), ("num_sequences", ctypes.POINTER(ctypes.c_int32)),
                ("sequence", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("wanted", ctypes.POINTER(ctypes.c_int8))]


POINTER, INT, LOG = ctypes.c_void_p, ctypes.c_int32, ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
FUNCTIONS = {
    "llama_backend_init": (None, []), "llama_log_set": (None, [LOG, POINTER]),
    "llama_model_default_params": (Options, []), "llama_context_default_params": (Options, []),
    "llama_model_load_from_file": (POINTER, [ctypes.c_char_p, Options]), "llama_init_from_model": (POINTER, [POINTER, Options]),
    "llama_model_get_vocab": (POINTER, [POINTER]), "llama_vocab_n_tokens": (INT, [POINTER]),
    "llama_batch_init": (Batch, [INT, INT, INT]), "llama_decode": (INT, [POINTER, Batch]), "llama_batch_free": (None, [Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [POINTER, INT]),
    "llama_get_memory": (POINTER, [POINTER]), "llama_memory_clear": (None, [POINTER, ctypes.c_bool]),
    "llama_set_n_threads": (None, [POINTER, INT, INT]), "llama_free": (None, [POINTER]), "llama_model_free": (None, [POINTER]),
    "ggml_quantize_chunk": (ctypes.c_size_t, [INT, POINTER, POINTER, *[ctypes.c_int64] * 3, POINTER]),
}
silent = LOG(lambda level, text, data: None)


def open_library():
    """None if xllamacpp is not installed."""
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None:
        return None
    library = ctypes.CDLL(str(next(Path(spec.submodule_search_locations[0]).glob("xllamacpp*.so"))))
    for name, (result, arguments) in FUNCTIONS.items():
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
    library.llama_backend_init()
    library.llama_log_set(silent, None)
    return library


def quantised(library, rows, kind: int, bytes_per_row: int) -> bytes:
    """Rows of float32 as blocks of ggml's type `kind`, as llama.cpp's own quantiser makes them without an importance matrix."""
    rows = np.ascontiguousarray(rows, "<f4")
    target = np.zeros(len(rows) * bytes_per_row, "u1")
    size = library.ggml_quantize_chunk(kind, rows.ctypes.data, target.ctypes.data, 0, *rows.shape, None)
    assert size == target.size, (kind, size, target.size)
    return target.tobytes()


def logits(library, path, texts) -> list:
    """For each text, an array [positions, vocabulary]: the logits of each token behind the beginning."""
    model = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    options = library.llama_context_default_params()
    options.words[0] = NUM_TOKENS  # n_ctx, the first field of every version
    context = library.llama_init_from_model(model, options)
    library.llama_set_n_threads(context, 1, 1)  # its threads wait busily for each other
    size = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
    found = []
    for text in texts:
        library.llama_memory_clear(library.llama_get_memory(context), True)
        batch = library.llama_batch_init(NUM_TOKENS, 0, 1)
        batch.num_tokens = len(text.tokens) - 1
        for i, token in enumerate(text.tokens[:-1]):
            batch.token[i], batch.position[i], batch.wanted[i] = token, i, 1
            batch.num_sequences[i], batch.sequence[i][0] = 1, 0
        status = library.llama_decode(context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode returned {status}")
        rows = [np.ctypeslib.as_array(library.llama_get_logits_ith(context, i), (size,))
                for i in range(text.num_given - 1, len(text.tokens) - 1)]
        found.append(np.stack(rows))  # a copy
        library.llama_batch_free(batch)
    library.llama_free(context)
    library.llama_model_free(model)
    return found
