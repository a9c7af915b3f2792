"""Which folder may include which. The table is the architecture; docs/architecture.md draws it."""

import functools
import re

import source_tree

# Folders of which one part is usable without the rest. Which file is in which part, the folder's
# CMakeLists.txt says (reprise_library(NAME part ...)); a file that it does not list is in the part
# called like the folder.
PARTS = {
    # decides: integers in, decision out; links alone into other engines
    "cudagraph": ("cudagraph_dispatch", "cudagraph"),
    "kv_cache": ("kv_cache_tensors", "kv_cache"),
    # schedules: no device, no model
    "engine": ("engine_scheduler", "engine"),
    # knows no model and no kernel; the tests that trace and run real models do
    "program": ("program_models", "program"),
    # the artifact store knows no program: a warm start links it without the compiler
    "compile": ("compile_cache", "compile_codegen_llvm", "compile_codegen_nvrtc", "compile_codegen_benchmark", "compile_codegen", "compile_models", "compile"),
}

BELOW_ENGINE = {
    "base",
    "device",
    "tensor",
    "cudagraph_dispatch",
    "cudagraph",
    "kernels",
    "kv_cache",
    "kv_cache_tensors",
    "weights",
    "tokenizer",
    "attention",
    "sampling",
    "structured_output",
    "models",
    "program",
}
# A layer includes itself and these. Not transitive: an edge that is used is an edge that is written.
ALLOWED = {
    "base": set(),
    "device": {"base"},
    "tensor": {"base", "device"},
    "cudagraph_dispatch": {"base"},
    "cudagraph": {"base", "device", "tensor", "cudagraph_dispatch"},
    "kernels": {"base", "device", "tensor"},
    "kv_cache": {"base"},
    "kv_cache_tensors": {"base", "device", "tensor", "kv_cache"},
    "weights": {"base", "tensor"},
    "tokenizer": {"base"},
    "chat_template": {"base"},
    "output_parsers": {"base"},
    "attention": {"base", "device", "tensor", "cudagraph", "cudagraph_dispatch", "kv_cache", "kv_cache_tensors"},
    "sampling": {"base"},
    "structured_output": {"base", "tokenizer"},
    "models": {"base", "device", "tensor", "cudagraph", "weights", "attention"},
    "program": {"base", "device", "tensor"},
    "program_models": {
        "base", "device", "tensor", "cudagraph", "kernels", "kv_cache", "kv_cache_tensors", "weights", "attention",
        "models", "program",
    },
    "compile_models": {
        "base", "device", "tensor", "cudagraph", "kernels", "kv_cache", "kv_cache_tensors", "weights", "attention",
        "models", "program", "program_models", "compile",
    },
    "compile_cache": {"base"},
    # made for the binary interface of kernels; LLVM is only in the plug-in
    "compile_codegen": {"base", "device", "tensor", "kernels", "program"},
    "compile_codegen_benchmark": {"base", "device", "tensor", "kernels", "program", "compile_codegen"},
    "compile_codegen_llvm": {"base", "tensor", "kernels", "program", "compile_codegen"},
    # text for GPUs; its tests run that text through the CUDA kernels' fixtures
    "compile_codegen_nvrtc": {"base", "device", "tensor", "kernels", "program", "compile_codegen"},
    "compile": {"base", "tensor", "program", "compile_codegen"},
    "engine_scheduler": {"base", "kv_cache", "sampling"},
    "engine": BELOW_ENGINE | {"engine_scheduler"},
    "api": BELOW_ENGINE | {
        "chat_template", "engine_scheduler", "engine", "compile", "compile_cache", "compile_codegen",
        "compile_codegen_nvrtc",
    },
    "server": {"base", "tokenizer", "sampling", "structured_output", "output_parsers", "api"},
    "bench": {"base", "tokenizer"},
    "cli": BELOW_ENGINE | {
        "chat_template", "engine_scheduler", "engine", "compile", "compile_codegen", "api", "server", "bench", "output_parsers",
    },
    "python": {"base", "tokenizer", "cudagraph_dispatch", "cudagraph", "sampling", "structured_output", "engine", "api"},
}
# Narrower than the table: these files of a layer include from the other layer at most these headers.
ONLY_THROUGH = {
    ("models", "cudagraph"): {"reprise/cudagraph/forward_context.h"},
    ("program", "device"): {"reprise/device/code_loader.h"},
    ("engine", "structured_output"): {"reprise/structured_output/token_constraint.h"},
}

_TARGET = re.compile(r"reprise_(?:library|test|binary)\s*\(\s*NAME\s+(\w+)([^)]*)\)")
_SUPPORT = re.compile(r"(_test|_benchmark|_fuzz|_test_support|_fixture)$")


@functools.cache
def _members(folder):
    """File name without suffix -> part, for one folder of PARTS."""
    found = {}
    text = source_tree.read(f"{source_tree.LIBRARY}/{folder}/CMakeLists.txt")
    for name, arguments in _TARGET.findall(text):
        if name in PARTS[folder]:
            for file in re.findall(r"([\w/]+)\.(?:h|cpp)\b", arguments):
                # A fixture that two parts compile is in the one called like the folder.
                if name == folder or file.split("/")[-1] not in found:
                    found[file.split("/")[-1]] = name
    return found


def layer_of(path):
    """Layer of "reprise/cudagraph/explain.h" or "src/reprise/cudagraph/explain_test.cpp"."""
    parts = path.removeprefix("src/").split("/")
    folder, name = parts[1], parts[-1].split(".")[0]
    if folder not in PARTS:
        return folder
    members = _members(folder)
    return members.get(name) or members.get(_SUPPORT.sub("", name)) or folder


def violations(path, text):
    """Sentences, one per include of `path` that the table forbids."""
    layer = layer_of(path)
    if layer not in ALLOWED:
        return [f"{path}: folder '{layer}' is not in the table of tests/architecture/include_edges.py"]
    found = []
    for name in source_tree.includes(text):
        if not name.startswith("reprise/"):
            # Full include paths only: a relative one would go around this test.
            if name.endswith((".h", ".inl")) and "/" not in name and (
                source_tree.ROOT / path
            ).parent.joinpath(name).exists():
                found.append(f'{path}: includes "{name}" without its full path')
            continue
        target = layer_of(name)
        narrow = ONLY_THROUGH.get((layer, target))
        if target != layer and target not in ALLOWED[layer]:
            allowed = ", ".join(sorted(ALLOWED[layer])) or "nothing"
            found.append(f"{path}: {layer} includes {name} ({target}); it may include {allowed}")
        elif narrow is not None and name not in narrow:
            found.append(f"{path}: {layer} includes {name}; of {target} it may include {', '.join(sorted(narrow))}")
    return found


def cycles():
    """Layers that the table lets include each other, directly or around corners."""

    def reachable(start):
        seen, waiting = set(), [start]
        while waiting:
            for target in ALLOWED[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    return sorted(layer for layer in ALLOWED if layer in reachable(layer))
