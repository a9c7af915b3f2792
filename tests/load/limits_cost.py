#!/usr/bin/env python3
"""What the limits on clients cost ordinary streams: their share of the server's instructions, counted by callgrind.

    limits_cost.py REPRISE_BINARY MODEL_FOLDER [--streams N] [--tokens N]

Many streams run at the same time under callgrind, which counts from the first request to the last token. The functions
that check, count, price or queue requests are listed below; the result is what they and all that they call executed, as
a share of everything and per token. They cannot be switched off, so these are the instructions that a server without
them would save. The share is an upper bound for larger models, whose steps execute more. Needs valgrind, and some
minutes: a program runs fifty times slower under it, and without AVX-512 and AMX. Uses only Python's standard library.
"""

import argparse
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
import attacks
import serve_test

# The outermost functions, as callgrind spells them. No function of this list calls another one of the list.
LIMITS = [
    r"ApiServer::Impl::check_head", r"server::check_head", r"HttpSession::(start|end)_deadline",
    r"HttpServer::Impl::max_per_peer", r"server::counted_part", r"RequestBody::reader::", r"BodyMemory", r"server::metered",
    r"HttpMeter::observe", r"AccessLog::write", r"LineWriter::Shared::run", r"server::check_answer_size",
    r"GenerationService::(check_room|reserve_answer)", r"server::answer_bytes", r"server::Worker::",
    r"Scheduler::check_admissible", r"Scheduler::waits_for_prompt_logits", r"ConstrainedSampling::",
    r"ApiServer::Impl::give_memory_back", r"WorkLimit::check", r"WorkMeter::count",
]


def wrapper(folder, binary):
    path = folder / "reprise"
    path.write_text(f'#!/bin/sh\nexec valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file={folder}/out.%p '
                    f'"{Path(binary).resolve()}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def control(server, *arguments):
    subprocess.run(["callgrind_control", *arguments, str(server.process.pid)], check=True, stdout=subprocess.DEVNULL)


def run_streams(server, options):
    connections = []
    for number in range(options.streams):
        connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=serve_test.TIMEOUT))
        connections[-1].sendall(attacks.post(attacks.COMPLETIONS, {
            "prompt": [5 + number % 500, 7], "max_tokens": options.tokens, "ignore_eos": True, "stream": True, "temperature": 0}))
    for connection in connections:
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200") and b"[DONE]" in answer, answer[:300]
        connection.close()


def inclusive_counts(folder):
    """Instructions by function, with all that it called; and of everything."""
    file = max(folder.glob("out.*"), key=lambda path: path.stat().st_size)
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", str(file)], check=True,
                          capture_output=True, text=True).stdout
    counts, total = {}, 0
    for line in text.splitlines():
        if found := re.match(r"\s*([\d,]+)\s+PROGRAM TOTALS", line):
            total = int(found[1].replace(",", ""))
        elif found := re.match(r"\s*([\d,]+)\s+\S*?:(.+?)(?: \[[^\]]*\])?$", line):
            counts[found[2]] = counts.get(found[2], 0) + int(found[1].replace(",", ""))
    return counts, total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=16)
    options = parser.parse_args()
    serve_test.MODEL, serve_test.TIMEOUT = options.model, 3600
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        serve_test.BINARY = wrapper(folder, options.binary)
        server = serve_test.Server("--max-model-len", "128", "--max-num-batched-tokens", str(max(128, 2 * options.streams)),
                                   "--max-num-seqs", str(options.streams), "--enforce-eager", "--compilation-config.mode", "0",
                                   "--disable-log-stats")
        try:
            control(server, "-i", "on")
            run_streams(server, options)
            control(server, "-i", "off")
            control(server, "-d")
        finally:
            server.stop()
        counts, total = inclusive_counts(folder)
    num_tokens = options.streams * options.tokens
    print(f"{total / num_tokens:,.0f} instructions per token, {options.streams} streams of {options.tokens} tokens\n"
          "| function | per token | share |\n|---|---|---|")
    together = 0
    for function, count in sorted(counts.items(), key=lambda item: -item[1]):
        if any(re.search(pattern, function) for pattern in LIMITS):
            together += count
            print(f"| `{function[:90]}` | {count / num_tokens:,.1f} | {count / total:.4%} |")
    print(f"| together | {together / num_tokens:,.1f} | {together / total:.4%} |")


if __name__ == "__main__":
    main()
