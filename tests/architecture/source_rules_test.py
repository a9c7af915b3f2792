"""Rules on the text of the repository: banned calls, folder names, READMEs, paths, links, dead files."""

import re
import unittest

import source_tree
from classes import classes, defined_classes
from functions import functions

BANNED = {
    "alloca": "the stack has no limit that can be reported",
    "atof": "reads garbage as 0; use std::from_chars",
    "atoi": "reads garbage as 0; use std::from_chars",
    "atol": "reads garbage as 0; use std::from_chars",
    "getenv": "options come from arguments; only api and cli may look at the environment",
    "secure_getenv": "options come from arguments; only api and cli may look at the environment",
    "gets": "no length",
    "popen": "the engine starts no programs",
    "rand": "hidden global state; randomness is a function of seed and position",
    "setenv": "the environment belongs to the program around us",
    "sprintf": "no length; use fmt",
    "srand": "hidden global state",
    "strcat": "no length",
    "strcpy": "no length",
    "strtok": "hidden global state",
    "system": "the engine starts no programs",
    "vsprintf": "no length; use fmt",
}
MAY_READ_ENVIRONMENT = ("src/reprise/api/", "src/reprise/cli/")
# NCCL reads a setting from the environment, and has no function for it. The program sets it before it has a thread.
MAY_CHANGE_ENVIRONMENT = ("src/reprise/cli/rank_session.cpp",)
BANNED_HEADERS = {
    "regex": "recursive: a long input overflows the stack; use reprise/tokenizer/regex.h",
    "omp.h": "one worker team serves the step; OpenMP would bring a second",
}
VAGUE_NAMES = re.compile(r"^(?:.*_)?(?:utils?|common|misc|helpers?)$")
# An absolute path on one developer's machine.
PRIVATE_PATH = re.compile(r"(?<![\w.~/-])/(?:work|home|root|Users|mnt)/[\w.-]")
TEXT_SUFFIXES = (
    ".h .cpp .inl .cu .cuh .py .sh .md .cmake .txt .yml .yaml .toml .jinja .jsonl .csv".split()
)
MAX_README_LINES = 25
# A long file is a smell: the test lists files above the first number, and fails above the second. A class that grows
# must be divided (docs/adr/0080), so the size of classes is the rule.
SMELL_FILE_LINES = 450
MAX_FILE_LINES = 650
MAX_FUNCTION_LINES = 60
MAX_MEMBERS = 20
MAX_PRIVATE_METHODS = 20
# Classes above these limits: their members and private methods. Lower a number, or take a row out, when a class shrinks;
# never raise one.
BIG_CLASSES = {
    ("src/reprise/chat_template", "Evaluator"): (6, 41),
    ("src/reprise/chat_template", "ExpressionParser"): (6, 30),
    ("src/reprise/chat_template", "Lexer"): (7, 23),
    ("src/reprise/compile/codegen/llvm", "RowEmitter"): (12, 21),
    ("src/reprise/program", "Parser"): (5, 30),
    ("src/reprise/server/http", "HttpSession"): (28, 19),
    ("src/reprise/structured_output", "AnswerMachine"): (7, 28),
    ("src/reprise/structured_output", "PatternReader"): (2, 21),
    ("src/reprise/structured_output", "SchemaWriter"): (15, 35),
}
# Classes whose functions are defined in several source files, with the number of files. These numbers may only become
# smaller.
SCATTERED_CLASSES = {
    ("src/reprise/chat_template", "Evaluator"): 2,
    ("src/reprise/chat_template", "ExpressionParser"): 2,
    ("src/reprise/cli", "OptionTable"): 2,
    ("src/reprise/config", "Resolver"): 4,
    ("src/reprise/kernels/cuda", "CudaExecutor"): 2,
    ("src/reprise/structured_output", "AnswerMachine"): 2,
    ("src/reprise/structured_output", "SchemaWriter"): 3,
    ("src/reprise/weights/packed_copy", "PackedCopyFile"): 2,
}

_CALL = re.compile(r"(?<![\w.>:~])(?:std::|::)?(%s)\s*\(" % "|".join(BANNED))


def banned_calls(path, text):
    text = source_tree.without_comments_and_strings(text)
    found = []
    for match in _CALL.finditer(text):
        name = match.group(1)
        if name.endswith("getenv") and path.startswith(MAY_READ_ENVIRONMENT):
            continue
        if name == "setenv" and path in MAY_CHANGE_ENVIRONMENT:
            continue
        line = text.count("\n", 0, match.start()) + 1
        found.append(f"{path}:{line}: {name}(): {BANNED[name]}")
    for name in source_tree.includes(text):
        if name in BANNED_HEADERS:
            found.append(f"{path}: <{name}>: {BANNED_HEADERS[name]}")
    if re.search(r"#\s*pragma\s+omp", text):
        found.append(f"{path}: #pragma omp: {BANNED_HEADERS['omp.h']}")
    return found


def too_long(path, text):
    found = []
    num_lines = len(text.splitlines())
    if num_lines > MAX_FILE_LINES:
        found.append(f"{path}: {num_lines} lines, more than {MAX_FILE_LINES}: give one of its concepts its own file")
    for line, num_lines, declaration in functions(text):
        if num_lines > MAX_FUNCTION_LINES:
            found.append(f"{path}:{line}: {num_lines} lines, more than {MAX_FUNCTION_LINES}: {declaration[:90]}")
    return found


def product_texts():
    return {path: source_tree.read(path) for path in source_tree.code_files() if not source_tree.is_test(path)}


def folder_of(path):
    return path.rsplit("/", 1)[0]


def big_classes(texts):
    """(folder, name) to (members, private methods) of the classes above one of the limits. Structs are values."""
    found = {}
    for path, text in texts.items():
        for c in classes(text):
            if c.is_struct or (c.members <= MAX_MEMBERS and c.private_methods <= MAX_PRIVATE_METHODS):
                continue
            found[folder_of(path), c.name] = (c.members, c.private_methods)
    return found


def scattered_classes(texts):
    """(folder, name) to the number of source files that define functions of a class, if it is more than one."""
    declared = {c.name for text in texts.values() for c in classes(text)}
    files = {}
    for path, text in texts.items():
        if path.endswith((".cpp", ".cu")):
            for name in defined_classes(text) & declared:
                files.setdefault((folder_of(path), name), set()).add(path)
    return {key: len(paths) for key, paths in files.items() if len(paths) > 1}


def beyond(found, allowed, what):
    """What is worse than allowed, and what is better than allowed: then the list has to shrink."""
    problems = []
    for key in sorted(found.keys() | allowed.keys()):
        now, limit = found.get(key), allowed.get(key)
        if now != limit:
            problems.append(f"{key[0]}: {key[1]}: {what} {now}, the list of exceptions says {limit}")
    return problems


def heading_anchors(markdown):
    """The anchors that common Markdown renderers give to the headings of a page."""
    anchors = set()
    in_fence = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        match = None if in_fence else re.match(r"#{1,6}\s+(.*)", line)
        if match:
            text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", match.group(1)).strip().lower()
            anchors.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text)))
    return anchors


def broken_links(path, markdown, root=source_tree.ROOT):
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    found = []
    for target in re.findall(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        destination = (root / path).parent / file if file else root / path
        if not destination.exists():
            found.append(f"{path}: {target} does not exist")
        elif anchor and destination.suffix == ".md":
            page = destination.read_text(encoding="utf-8") if file else markdown
            if anchor not in heading_anchors(page):
                found.append(f"{path}: {target}: no such heading")
    return found


CONSTANT = re.compile(r"(?<![:\w])k[A-Z]\w*")


def constants_of_other_sources(sources, read=source_tree.read, closure=source_tree.closure):
    """Constants of one source that another one uses: it compiles only while both are in one group (REPRISE_UNITY)."""
    texts = {}

    def text(path):
        if path not in texts:
            texts[path] = source_tree.without_comments_and_strings(read(path))
        return texts[path]

    owners = {}
    for path in sources:
        for name in re.findall(r"^(?:static |inline )*constexpr [^=;{(]*\b(k[A-Z]\w*)", text(path), re.MULTILINE):
            owners.setdefault(name, []).append(path)
    found = []
    for path in sources:
        for name in sorted(set(CONSTANT.findall(text(path)))):
            is_declared = re.search(rf"\b{name}\s*(?:\[[^\]]*\]\s*)*(?:=[^=]|\{{|\()|(?<!return) {name};", text(path))
            if name not in owners or path in owners[name] or is_declared:
                continue
            if not any(re.search(rf"\b{name}\b", text(other)) for other in closure(path) if other != path):
                found.append(f"{path}: {name} is a constant of {owners[name][0]}; move it to a header")
    return found


class SourceRules(unittest.TestCase):
    def assert_none(self, found):
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_no_banned_call_and_no_banned_header(self):
        self.assert_none(
            [s for path in source_tree.code_files() for s in banned_calls(path, source_tree.read(path))]
        )

    def test_a_planted_banned_call_is_found(self):
        path = "src/reprise/base/x.cpp"
        for planted in ("auto x = std::getenv(\"A\");", "n = atoi(p);", "::system(c);", "#include <regex>"):
            with self.subTest(planted):
                self.assertEqual(len(banned_calls(path, planted)), 1)
        for harmless in ("// getenv(x)", "device.system(1);", "my_rand(1);", "snprintf(a, 1, b);"):
            with self.subTest(harmless):
                self.assertEqual(banned_calls(path, harmless), [])
        self.assertEqual(banned_calls("src/reprise/cli/x.cpp", "std::getenv(\"NO_COLOR\");"), [])

    def test_no_class_grows_beyond_its_limit(self):
        texts = product_texts()
        self.assertGreater(sum(len(classes(text)) for text in texts.values()), 1000)
        self.assert_none(beyond(big_classes(texts), BIG_CLASSES, "(members, private methods)"))

    def test_each_class_has_one_source_file(self):
        self.assert_none(beyond(scattered_classes(product_texts()), SCATTERED_CLASSES, "source files"))

    def test_planted_classes_that_are_too_big_or_scattered_are_found(self):
        def big(members, methods, kind="class"):
            lines = [f"  int a{i}_ = {{}};\n" for i in range(members)]
            lines += [f"  [[nodiscard]] std::pair<int, int> f{i}(int x = g(1)) const;\n" for i in range(methods)]
            # None of these is a member or a private method of A.
            head = " public:\n  A(int x) : a0_{x} { if (x) { h(); } }\n  int f() const { return 1; }\n  using T = int;\n"
            inner = " private:\n  struct B {\n    int x = 0;\n  };\n  static constexpr int kC = 3;\n  friend class D;\n"
            text = f"namespace n {{\nclass E;\nenum class F {{ x }};\n{kind} A final : public Z {{\n"
            return text + head + inner + "".join(lines) + "};\n}\n"

        path, key = "src/reprise/base/x.h", ("src/reprise/base", "A")
        self.assertEqual(big_classes({path: big(20, 20)}), {})
        self.assertEqual(big_classes({path: big(21, 20)}), {key: (21, 20)})
        self.assertEqual(big_classes({path: big(20, 21)}), {key: (20, 21)})
        self.assertEqual(big_classes({path: big(30, 30, "struct")}), {})
        once = "namespace n {\nint A::f() const {\n  return B::g(1);\n}\n}\n"
        texts = {path: big(1, 1), "src/reprise/base/x.cpp": once, "src/reprise/base/y.cpp": "void h() {\n  A::g(1);\n}\n"}
        self.assertEqual(scattered_classes(texts), {})
        texts["src/reprise/base/y.cpp"] = "A::A(int x)\n    : a_(x) {}\n"
        self.assertEqual(scattered_classes(texts), {key: 2})
        for allowed in ({}, {key: 1}, {key: 3}):
            self.assertEqual(len(beyond({key: 2}, allowed, "files")), 1)
        self.assertEqual(len(beyond({}, {key: 2}, "files")), 1)
        self.assertEqual(beyond({key: 2}, {key: 2}, "files"), [])

    def test_no_product_file_and_no_function_in_it_is_too_long(self):
        texts = product_texts()
        for path, text in texts.items():
            if (num_lines := len(text.splitlines())) > SMELL_FILE_LINES:
                print(f"{path}: {num_lines} lines, more than {SMELL_FILE_LINES}: does it hold more than one concept?")
        self.assertGreater(sum(len(functions(text)) for text in texts.values()), 1000)
        self.assert_none([s for path, text in texts.items() for s in too_long(path, text)])

    def test_a_planted_long_file_and_a_planted_long_function_are_found(self):
        path = "src/reprise/base/x.cpp"
        self.assertEqual(too_long(path, "int a;\n" * 650), [])
        self.assertEqual(len(too_long(path, "int a;\n" * 651)), 1)
        planted = {
            "a function": "namespace a {\nint f(int x) {\n%s}\n}\n",
            "a method of a class template": "template <class T>\nclass A : B<T> {\n public:\n  T f() const {\n%s}\n};\n",
            "a constructor": "namespace {\nA::A(int x)\n    : a_{x},\n      b_(x) {\n%s}\n}\n",
            "a trailing return type": "auto f(int x = 3)\n    -> std::pair<int, int> {\n%s}\n",
            "an operator": "bool operator==(A a, A b) {\n%s}\n",
        }
        for what, text in planted.items():
            with self.subTest(what):
                self.assertEqual(len(too_long(path, text % ("  g();\n" * 60))), 1)
                self.assertEqual(too_long(path, text % ("  if (x) { g(\"{\"); }  // {\n" * 56)), [])
        with self.subTest("a table is not a function"):
            table = "constexpr auto kRows = std::to_array<Row>({\n%s});\n" % ("  {1, f(2)},\n" * 99)
            self.assertEqual(too_long(path, table), [])

    def test_no_source_uses_a_constant_of_another_source(self):
        for library in sorted({path.split("/")[2] for path in source_tree.code_files() if path.endswith(".cpp")}):
            sources = [path for path in source_tree.code_files(f"src/reprise/{library}") if path.endswith((".cpp", ".cu"))]
            self.assertEqual(constants_of_other_sources(sources), [])

    def test_a_planted_constant_of_another_source_is_found(self):
        texts = {
            "a.cpp": "constexpr int kLimit = 3;\n",
            "b.cpp": "int b() { return kLimit; }\n",
            "c.cpp": "int c() { const int kLimit = 2; return kLimit; }\n",
            "d.cpp": "int d() { return kLimit; }\n",
            "d.h": "inline constexpr int kLimit = 4;\n",
        }
        found = constants_of_other_sources([path for path in texts if path.endswith(".cpp")], texts.get,
                                           lambda path: {path, "d.h"} if path == "d.cpp" else {path})
        self.assertEqual(found, ["b.cpp: kLimit is a constant of a.cpp; move it to a header"])

    def test_no_folder_or_file_has_a_vague_name(self):
        found = []
        for path in source_tree.code_files() + source_tree.files("scripts") + source_tree.files("tools"):
            parts = [part.split(".")[0] for part in path.split("/")]
            if any(VAGUE_NAMES.match(part) for part in parts):
                found.append(path)
        self.assert_none(found)

    def test_every_header_has_pragma_once_and_no_using_namespace(self):
        found = []
        for path in source_tree.files(source_tree.LIBRARY, (".h",)):
            text = source_tree.without_comments_and_strings(source_tree.read(path))
            if text.count("#pragma once") != 1:
                found.append(f"{path}: #pragma once is missing")
            if re.search(r"^\s*using\s+namespace\b", text, re.MULTILINE):
                found.append(f"{path}: using namespace in a header")
        self.assert_none(found)

    def test_every_source_file_is_named_in_a_cmake_file(self):
        """A test that is not built never fails."""
        found = []
        for path in source_tree.files("src", (".cpp",)) + source_tree.files("tests", (".cpp",)):
            folder = (source_tree.ROOT / path).parent
            while not (folder / "CMakeLists.txt").exists():
                folder = folder.parent
            name = (source_tree.ROOT / path).relative_to(folder).as_posix()
            text = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
            # In a CMake list of folder names, OP stands for OP/OP.cpp and OP/OP_test.cpp.
            in_folder = re.fullmatch(r"(\w+)/\1((?:_test)?\.cpp)", name)
            if in_folder and "${op}/${op}" + in_folder[2] in text:
                name = in_folder[1]
            # CMake may build a name from parts, as in ${subject}_fuzz.cpp.
            pattern = re.escape(name) + r"|\$\{\w+\}_" + re.escape(name.rsplit("_", 1)[-1])
            if not re.search(rf"(?<![\w/]){pattern}|(?<=\s){pattern}", text):
                found.append(f"{path}: not in {folder.relative_to(source_tree.ROOT)}/CMakeLists.txt")
        self.assert_none(found)

    def test_every_folder_of_the_library_has_a_short_readme(self):
        found = []
        for folder in sorted((source_tree.ROOT / source_tree.LIBRARY).iterdir()):
            if not folder.is_dir():
                continue
            readme = folder / "README.md"
            if not readme.exists():
                found.append(f"{folder.name}: no README.md")
            elif (lines := len(readme.read_text(encoding="utf-8").splitlines())) > MAX_README_LINES:
                found.append(f"{folder.name}: README.md has {lines} lines, more than {MAX_README_LINES}")
        self.assert_none(found)

    def test_no_file_holds_a_path_of_somebody_s_machine(self):
        found = []
        for path in source_tree.files(suffixes=TEXT_SUFFIXES):
            for number, line in enumerate(source_tree.read(path).splitlines(), 1):
                if PRIVATE_PATH.search(line):
                    found.append(f"{path}:{number}: {line.strip()[:100]}")
        self.assert_none(found)

    def test_links_between_pages_resolve(self):
        pages = source_tree.files(suffixes=(".md",))
        self.assertIn("README.md", pages)
        self.assert_none([s for page in pages for s in broken_links(page, source_tree.read(page))])

    def test_a_planted_broken_link_is_found(self):
        self.assertEqual(len(broken_links("README.md", "[a](docs/nothing.md) [b](LICENSE) [c](https://x.y)")), 1)
        self.assertEqual(len(broken_links("README.md", "# A b\n[a](#a-b) [b](#c)")), 1)

    def test_decisions_that_files_refer_to_exist(self):
        decisions = {path.split("/")[-1][:4] for path in source_tree.files("docs/adr", (".md",))}
        found = []
        for path in source_tree.files(suffixes=TEXT_SUFFIXES):
            for number in re.findall(r"docs/adr/(\d{4})", source_tree.read(path)):
                if number not in decisions:
                    found.append(f"{path}: docs/adr/{number} does not exist")
        self.assert_none(found)


if __name__ == "__main__":
    unittest.main()
