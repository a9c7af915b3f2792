import unittest

import mutable_state
import source_tree

# The folders that users call may keep state. The folders below them may not, so that several engines fit in one
# process.
ABOVE = ("src/reprise/api/", "src/reprise/cli/")
# Variables that must be thread-local, each with the reason.
ALLOWED = {
    ("src/reprise/device/cuda/driver.h", "current_context_number"): "mirrors the CUDA driver's current context",
    ("src/reprise/c/reprise.cpp", "thread_local std::string text"): "reprise_last_error() is of the thread that called",
}


def names(text):
    return [variable.text for variable in mutable_state.find(text)]


class MutableState(unittest.TestCase):
    def test_nothing_below_api_keeps_state_outside_objects(self):
        found = [
            f"{path}:{variable.line}: {variable.text}"
            for path in source_tree.code_files()
            if not path.startswith(ABOVE) and not source_tree.is_test(path)
            for variable in mutable_state.find(source_tree.read(path))
            if not any(path == allowed and name in variable.text for allowed, name in ALLOWED)
        ]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_planted_state_is_found(self):
        for planted in (
            "int counter = 0;",
            "namespace a { namespace { std::vector<int> cache; } }",
            "namespace a {\nstatic const char* name = \"x\";\n}",
            "int next() {\n  static int id = 0;\n  return ++id;\n}",
            "void f() { static std::mutex mutex; }",
            "void f() { static Registry registry(4); }",
            "Registry& registry() {\n  static Registry registry{1, {2, 3}};\n  return registry;\n}",
            "thread_local int depth = 0;",
            "void f() { thread_local std::string buffer; }",
            "struct A { static inline int count = 0; };",
            "inline std::atomic<bool> flag{false};",
            "std::map<std::string, int> table = {{\"a\", 1}};",
        ):
            with self.subTest(planted):
                self.assertEqual(len(names(planted)), 1, names(planted))

    def test_what_cannot_change_is_not_found(self):
        for harmless in (
            "constexpr int kLimit = 4;",
            "const std::array<int, 2> kTable = {1, 2};",
            "static constexpr std::string_view kNames[] = {\"a;\", \"b{\"};",
            "const char* const kName = \"x\";",
            "int f();\nint g() { return 1; }",
            "template <class T> T f(T x) { T y = x; return y; }",
            "class A {\n public:\n  static A make();\n  int x = 0;\n private:\n  int y_;\n};",
            "A::A(int x) : x_(x), y_{x} {\n  int z = 0;\n}",
            "enum class E : uint8_t { a, b };\nusing B = int;",
            "void f() { static const Table table = make(); }",
            "void f() { static const auto table = [] { Table t; return t; }(); }",
            "namespace a = std::chrono;",
            "#define X \\\n  int y = 0;\n",
            "// int counter = 0;\n/* int other; */",
            "A& A::operator=(A&&) noexcept = default;\nA::A(A&&) = default;",
            "auto operator<=>(const A&) const = default;",
            "extern const int kOther;",
            "struct S { int64_t a = 1'000; };",
        ):
            with self.subTest(harmless):
                self.assertEqual(names(harmless), [])


if __name__ == "__main__":
    unittest.main()
