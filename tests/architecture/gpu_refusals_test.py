"""docs/gpu.md lists what is refused on a GPU: exactly the options that the code refuses there."""

import re
import unittest

import source_tree

FLAG = r"--[a-z][a-z-]+"


def listed(page):
    """The flags of the table of refusals."""
    table = re.search(r"^\| refused \| why \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.M)
    return {flag for row in table[1].splitlines() for flag in re.findall(f"`({FLAG})`", row.split("|")[1])}


def refused(path, text):
    """The flags that a file of the program refuses where the device is a GPU."""
    if path.endswith("cpu_only.cpp"):
        messages = re.findall(r'InvalidArgument\(\s*(?:fmt::format\(\s*)?"([^"]*)"', text)
    else:
        branches = re.findall(r"if \([^()]*is_gpu\(\)\) \{(.*?)\n  \}", text, re.S)
        messages = [text for branch in branches if re.search("throw|refuse", branch)]
        # A function of the file may put the flag in front of its message.
        messages = [message if re.search(FLAG, message) else text for message in messages]
        return {flag for message in messages for flag in re.findall(f'"({FLAG}): ', message)}
    return {flag for message in messages for flag in re.findall(FLAG, message.split(":")[0])}


class GpuRefusals(unittest.TestCase):
    def test_the_page_lists_what_the_code_refuses(self):
        found = set()
        for path in source_tree.files("src/reprise/api", (".cpp",)):
            found |= refused(path, source_tree.read(path))
        self.assertEqual(listed(source_tree.read("docs/gpu.md")), found)

    def test_a_refusal_that_the_page_lacks_would_be_found(self):
        code = 'if (device.is_gpu()) {\n    throw InvalidArgument("--expert-counters: only CPUs");\n  }\n'
        self.assertEqual(refused("src/reprise/api/x.cpp", code), {"--expert-counters"})
        code = 'throw InvalidArgument(\n fmt::format("--kv-cache-dtype, --quantization: {}", 1));'
        self.assertEqual(refused("src/reprise/api/cpu_only.cpp", code), {"--kv-cache-dtype", "--quantization"})
        self.assertEqual(listed("| refused | why |\n|---|---|\n| `--x-y` and more | `--z` |\n"), {"--x-y"})


if __name__ == "__main__":
    unittest.main()
