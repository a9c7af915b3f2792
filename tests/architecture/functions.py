"""Finds the functions of a C++ file and their lengths by counting braces, so that templates and macros work too."""

import re
from typing import NamedTuple

import source_tree

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_TEMPLATE = re.compile(r"template\s*<[^;{}]*>\s*(?=struct\b|class\b|union\b)")
_SCOPE = re.compile(r"(?:inline\s+)?namespace\b|extern\b|(?:struct|class|union|enum)\b")
_INITIALIZER = re.compile(r"^[^(]*(?<![=!<>])=|=\s*$")  # variables: `=` before any parameter list
_ACCESS = re.compile(r"(?:public|private|protected)\s*$")


class Function(NamedTuple):
    line: int  # the first line of the declaration
    num_lines: int
    declaration: str


def _kind(head, parent):
    if parent not in (None, "scope"):
        return "inner"
    if _SCOPE.match(_TEMPLATE.sub("", head)) and not head.endswith(")"):
        return "scope"
    if "operator" not in head and _INITIALIZER.search(head):
        return "inner"
    # After a member initialiser `a_{1}` of a constructor comes nothing or a comma.
    return "function" if "(" in head or head == "" or head.startswith(",") else "inner"


def functions(text):
    """Functions at the scope of a namespace or class. \\throws ValueError if braces are not balanced."""
    text = source_tree.without_comments_and_strings(text)
    text = _DIRECTIVE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    found, open_braces, start = [], [], 0
    for match in re.finditer(r"[{};:]", text):
        head = text[start : match.start()]
        if match.group(0) == ":":
            if _ACCESS.search(head):
                start = match.end()
            continue
        start = match.end()
        if match.group(0) == "{":
            kind = _kind(head.strip(), open_braces[-1][0] if open_braces else None)
            line = text.count("\n", 0, match.start() - len(head.lstrip())) + 1
            open_braces.append((kind, line, " ".join(head.split())))
        elif match.group(0) == "}":
            if not open_braces:
                raise ValueError("a closing brace without an opening one")
            kind, line, declaration = open_braces.pop()
            if kind == "function":
                found.append(Function(line, text.count("\n", 0, match.start()) + 2 - line, declaration))
    if open_braces:
        raise ValueError(f"the brace of line {open_braces[-1][1]} is not closed")
    return found
