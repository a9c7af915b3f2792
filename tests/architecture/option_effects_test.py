"""No option, environment variable or configuration key is accepted without an effect or a warning.

Reads the program's own lists of names. For each name, some test must use it in the spelling of a user; a new name
without a test fails here. That test itself shows the effect or the warning.
"""

import re
import unittest

import source_tree


def test_texts():
    paths = [path for path in source_tree.files("src", (".cpp",)) if path.endswith("_test.cpp")]
    paths += [path for path in source_tree.files("tests", (".py", ".cpp", ".h")) if "option_effects" not in path]
    paths += source_tree.files("python/tests", (".py",))
    return "\n".join(source_tree.read(path) for path in paths)


def compilation_keys():
    text = source_tree.read("src/reprise/config/compilation_config.cpp")
    return re.findall(r'^  v\("([a-z_]+)", c\.', text, re.M)


def options():
    """Names of options in the reference page that the program writes, without the flags that only vLLM has. Those are
    one table, and vllm_flags_test.cpp tests its lines.
    """
    text = source_tree.read("docs/reference/cli.md")
    names = set(re.findall(r"^ +(?:-[A-Za-z]+, )?--([a-z][a-z0-9-]+)", text, re.M))
    return sorted(names - set(re.findall(r"^\| `--([a-z0-9-]+)", source_tree.read("docs/reference/vllm-flags.md"), re.M)))


def variables():
    text = source_tree.read("docs/reference/environment.md")
    return re.findall(r"^\| `([A-Z_]+)", text, re.M)


def words_of(text):
    """Names in the spellings of tests: max_num_seqs, --max-num-seqs; pass_config.enable_sp counts as two names."""
    return set(re.findall(r"[A-Za-z][\w]*(?:-[A-Za-z0-9]\w*)*", text))


def missing(names, words):
    return [name for name in names if name not in words and name.replace("-", "_") not in words and "no-" + name not in words]


class OptionEffects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.words = words_of(test_texts())

    def test_every_compilation_key_is_used_by_a_test(self):
        keys = compilation_keys()
        self.assertGreater(len(keys), 40)
        self.assertEqual(missing(keys, self.words), [])

    def test_every_option_is_used_by_a_test(self):
        names = options()
        self.assertGreater(len(names), 150)
        self.assertEqual(missing(names, self.words), [])

    def test_every_variable_is_used_by_a_test(self):
        names = [name for name in variables() if name not in ("REPRISE_ARG_", "HOME")]
        self.assertGreater(len(names), 15)
        self.assertEqual(missing(names, self.words), [])

    def test_a_name_without_a_test_is_found(self):
        self.assertEqual(missing(["mode", "no_such_key"], self.words), ["no_such_key"])


if __name__ == "__main__":
    unittest.main()
