#!/usr/bin/env python3
"""Proves that clang-tidy with this repository's .clang-tidy complains: one bad file for each kind of check.

    tools/check_tidy_is_active.py CLANG_TIDY

A configuration that clang-tidy cannot read, or a pattern that turns everything off, would otherwise pass for
clean code. Uses only Python's standard library.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

BAD = {
    "bugprone-use-after-move": """
        #include <string>
        #include <utility>
        std::size_t taken(std::string text) {
          const std::string moved = std::move(text);
          return moved.size() + text.size();
        }""",
    "bugprone-dangling-handle": """
        #include <string>
        #include <string_view>
        std::string_view dangling() { return std::string("gone"); }""",
    "performance-unnecessary-value-param": """
        #include <vector>
        int first(const std::vector<int> values) { return values[0]; }""",
    "modernize-use-nullptr": "int* none() { return 0; }",
    "misc-unused-using-decls": """
        #include <vector>
        using std::vector;""",
    "readability-identifier-naming": "int BadName() { return 1; }",
    "readability-function-size": "int long_one(int x) {\n" + "  x += 1;\n" * 80 + "  return x;\n}",
}


def complaints(clang_tidy, text, folder):
    source = folder / "bad.cpp"
    source.write_text(text)
    done = subprocess.run(
        [clang_tidy, f"--config-file={ROOT / '.clang-tidy'}", "--quiet", str(source), "--", "-std=c++20"],
        capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def main(clang_tidy):
    silent = []
    with tempfile.TemporaryDirectory() as name:
        for check, text in BAD.items():
            code, output = complaints(clang_tidy, text, Path(name))
            if code == 0 or check not in output:
                silent.append(f"{check} said nothing of its example:\n{output}")
    for line in silent:
        print(line)
    print(f"clang-tidy is active: {len(BAD) - len(silent)} of {len(BAD)} examples are found")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
