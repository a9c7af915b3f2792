"""Which folder may include which. The table defines the architecture; docs/architecture.md draws it."""


import source_tree

# A layer is a folder with its subfolders, except for subfolders that are layers themselves. Each layer is one CMake
# library. A layer may include itself and the layers listed here. The list is not transitive: every edge that is used
# must be listed.
BELOW_RUNNER = {
    "base",
    "parallel",
    "device",
    "tensor",
    "cudagraph",
    "cudagraph/capture",
    "cudagraph/verify",
    "kernels",
    "kv_cache",
    "kv_cache/tensors",
    "kv_cache/transfer",
    "weights",
    "attention",
    "sampling",
    "lora",
    "speculative",
    "models",
    "program",
    "scheduler",
}
BELOW_API = BELOW_RUNNER | {"config", "tokenizer", "structured_output", "replay_log", "runner", "engine"}
ALLOWED = {
    "base": set(),
    # several processes that run one model: messages with deadlines, no device
    "parallel": {"base"},
    "device": {"base"},
    "tensor": {"base", "device"},
    # decisions from integers alone; other engines can link it alone
    "cudagraph": {"base"},
    # proofs about captured graphs, from addresses alone; other engines can link it alone
    "cudagraph/verify": {"base"},
    "cudagraph/capture": {"base", "device", "tensor", "cudagraph", "cudagraph/verify"},
    # the user's configuration, and what the engine makes of it; JSON and text stay in this layer
    "config": {"base", "cudagraph"},
    "kernels": {"base", "parallel", "device", "tensor"},
    "kv_cache": {"base"},
    "kv_cache/events": {"base", "kv_cache"},
    "kv_cache/tensors": {"base", "device", "tensor", "kv_cache"},
    "kv_cache/transfer": {"base", "device", "tensor", "kv_cache", "kv_cache/tensors"},
    "weights": {"base", "tensor"},
    "weights/packed_copy": {"base", "weights"},
    # names of models on the Hugging Face hub and in its cache
    "hub": {"base"},
    "tokenizer": {"base"},
    "chat_template": {"base"},
    "output_parsers": {"base"},
    "attention": {"base", "device", "tensor", "cudagraph", "cudagraph/capture", "kv_cache", "kv_cache/tensors"},
    "sampling": {"base"},
    # draft tokens: proposing and accepting them
    "speculative": {"base", "sampling"},
    "structured_output": {"base", "tokenizer"},
    # the file with which answers can be repeated: no engine, no device
    "replay_log": {"base", "sampling", "structured_output"},
    # adapters: their files, and their memory on the device
    "lora": {"base", "device", "tensor", "weights"},
    "models": {"base", "device", "tensor", "cudagraph/capture", "weights", "attention", "lora"},
    "program": {"base", "device", "tensor"},
    "compile": {"base", "tensor", "program", "compile/codegen"},
    "compile/report": {"base", "tensor", "program", "compile"},
    # the store of artifacts does not know programs: a start from the cache links it without the compiler
    "compile/cache": {"base"},
    # generated code uses the kernels' binary interface; LLVM is only in the plug-in
    "compile/codegen": {"base", "device", "tensor", "kernels", "program"},
    "compile/codegen/llvm": {"base", "tensor", "kernels", "program", "compile/codegen"},
    "compile/codegen/nvrtc": {"base", "device", "tensor", "kernels", "program", "compile/codegen"},
    # chooses passes, ranges and cache entries for a model: the only part of the compiler that knows the configuration
    "compile/model": {
        "base", "device", "tensor", "config", "kernels", "program", "compile", "compile/report",
        "compile/cache", "compile/codegen", "compile/codegen/nvrtc",
    },
    # requests and batches: no device, no model
    "scheduler": {"base", "kv_cache", "sampling", "speculative"},
    "runner": BELOW_RUNNER | {"structured_output"},
    "engine": BELOW_RUNNER | {"tokenizer", "structured_output", "replay_log", "runner"},
    "api": BELOW_API | {
        "kv_cache/events", "weights/packed_copy", "hub",
        "chat_template", "output_parsers", "compile/cache", "compile/model",
    },
    "server/http": {"base"},
    "server/dialects": {"base", "api", "server/http", "server/openai"},
    "server/openai": {"base", "tokenizer", "sampling", "structured_output", "output_parsers", "api", "server/http", "server/tracing", "lora", "kv_cache/transfer"},
    "server/metrics": {"base", "api", "server/http", "server/openai", "server/tracing"},
    "server/tracing": {"base", "api", "server/http"},
    "server": {
        "base", "tokenizer", "sampling", "structured_output", "output_parsers", "api",
        "server/dialects", "server/http", "server/openai", "server/metrics", "server/tracing", "lora",
    },
    # a client of servers; it knows nothing of the program's own server
    "http_client": {"base"},
    # downloads models into the cache of Hugging Face's tools
    "hub/download": {"base", "hub", "http_client"},
    "bench": {"base", "http_client", "tokenizer"},
    "cli": BELOW_API | {
        "chat_template", "compile", "compile/report", "compile/model", "compile/codegen", "api", "server", "server/http", "server/openai",
        "server/metrics", "server/tracing", "http_client", "hub", "hub/download", "bench", "output_parsers", "kv_cache/events",
    },
    "c": {"base", "tokenizer", "output_parsers", "api", "server", "server/openai", "cli"},
    "python": {
        "base", "tokenizer", "cudagraph", "cudagraph/capture", "cudagraph/verify", "config", "sampling", "structured_output", "lora", "engine", "api",
    },
}
# Tests and benchmarks may include more than the product's code, because they combine parts.
ALLOWED_TO_TESTS = {
    "program": {"cudagraph/capture", "kernels", "kv_cache/tensors", "weights", "attention", "models"},
    "compile": {"cudagraph/capture", "device", "kernels", "kv_cache/tensors", "weights", "attention", "models"},
    "scheduler": {"cudagraph", "kv_cache/transfer"},
}
# Rooms are subfolders of one layer that share its library and namespace. A room may include itself and the rooms that
# are listed here. "." means the files directly in the layer's folder; they may include every room.
ROOMS = {
    "api": {
        "text": set(),
        "options": {"text"},
        "loading": {"options", "text"},
        "graphs": {"loading", "options"},
        "replicas": {".", "loading", "options"},
    },
    "weights": {
        "files": {"."},
        # a config is read by the reader of its family, which fills in the config
        "config": {".", "files", "families"},
        "families": {".", "files", "config"},
        "codecs": {".", "files", "config"},
        "sources": {".", "files", "config", "codecs"},
        "gguf": {".", "files", "config", "codecs"},
    },
}
# Stricter than the table above: files of a layer may include only these headers of another layer.
ONLY_THROUGH = {
    ("models", "cudagraph/capture"): {"reprise/cudagraph/capture/forward_context.h"},
    ("program", "device"): {"reprise/device/code_loader.h"},
    ("runner", "structured_output"): {
        "reprise/structured_output/token_constraint.h", "reprise/structured_output/constraint_worker.h",
    },
}



def layer_of(path):
    """The layer of "reprise/cudagraph/capture_sizes.h" or "src/reprise/compile/cache/entry_reader.cpp"."""
    folders = path.removeprefix("src/").split("/")[1:-1]
    for length in range(len(folders), 0, -1):
        if "/".join(folders[:length]) in ALLOWED:
            return "/".join(folders[:length])
    return folders[0]


def room_of(path, layer):
    """The room of a file of a layer; "." for a file that lies in the layer's own folder."""
    below = path.removeprefix("src/").removeprefix(f"reprise/{layer}/")
    return below.split("/")[0] if "/" in below else "."


def violates_rooms(path, name, layer):
    """Whether the table of rooms forbids a file of a layer to include another one of the same layer."""
    own, target = room_of(path, layer), room_of(name, layer)
    allowed = ROOMS.get(layer, {}).get(own)
    return allowed is not None and target != own and target not in allowed and not source_tree.is_test(path)


def violations(path, text):
    """One sentence for each include of `path` that the table forbids."""
    layer = layer_of(path)
    if layer not in ALLOWED:
        return [f"{path}: folder '{layer}' is not in the table of tests/architecture/include_edges.py"]
    found = []
    tests_only = ALLOWED_TO_TESTS.get(layer, set()) if source_tree.is_test(path) else set()
    for name in source_tree.includes(text):
        if name.startswith("tests/") and not source_tree.is_test(path):
            found.append(f"{path}: the product includes {name}")
        if not name.startswith("reprise/"):
            # Requires full include paths, because this test would not see the layer in a relative path.
            if name.endswith((".h", ".inl")) and "/" not in name and (
                source_tree.ROOT / path
            ).parent.joinpath(name).exists():
                found.append(f'{path}: includes "{name}" without its full path')
            continue
        target = layer_of(name)
        if layer == "cudagraph" and name == "reprise/base/json.h":
            found.append(f"{path}: the dispatcher sees no JSON; what parses it belongs in config")
        narrow = ONLY_THROUGH.get((layer, target))
        if target == layer and violates_rooms(path, name, layer):
            found.append(f"{path}: includes {name}, which lies in a room above it (ROOMS)")
        if target != layer and target not in ALLOWED[layer] | tests_only:
            allowed = ", ".join(sorted(ALLOWED[layer])) or "nothing"
            found.append(f"{path}: {layer} includes {name} ({target}); it may include {allowed}")
        elif narrow is not None and name not in narrow:
            found.append(f"{path}: {layer} includes {name}; of {target} it may include {', '.join(sorted(narrow))}")
    return found


def cycles():
    """Layers that may include each other by the table, directly or through other layers."""

    def reachable(start):
        seen, waiting = set(), [start]
        while waiting:
            for target in ALLOWED[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    return sorted(layer for layer in ALLOWED if layer in reachable(layer))
