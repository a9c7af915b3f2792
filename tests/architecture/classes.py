"""Finds the classes of a C++ file with their data members and private methods, by counting braces and parentheses."""

import re
from typing import NamedTuple

import source_tree

_CLASS = re.compile(r"(?<!enum )\b(class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::(?!:)[^;{}()]*)?\{")
_NOT_A_MEMBER = re.compile(r"(?:using|typedef|friend|static|template|enum|class|struct|union|static_assert|REPRISE_\w+)\b")
_QUALIFIED = re.compile(r"^(?!\s)[^=;{}()#]*?\b(\w+)::~?(\w+|operator[^(\s]+)\s*\(", re.MULTILINE)


class Class(NamedTuple):
    name: str
    is_struct: bool
    members: int  # data members that are not static
    private_methods: int


def _statements(body):
    """The statements of a class body at its own depth, without the bodies of functions and of inner types."""
    depth, start, found = 0, 0, []
    for i, char in enumerate(body):
        if char in "{(":
            depth += 1
        elif char in "})":
            depth -= 1
            # The body of a function ends the statement; initialisers and inner types continue to the semicolon.
            if char == "}" and depth == 0 and not re.match(r"\s*[;,]", body[i + 1 :]):
                found.append(body[start : i + 1])
                start = i + 1
        elif char == ";" and depth == 0:
            found.append(body[start:i])
            start = i + 1
    return found


def _without_template_arguments(text):
    previous = None
    while previous != text:
        previous, text = text, re.sub(r"<[^<>;{}]*>", "", text)
    return text


def _is_function(statement):
    """Whether the declaration has a list of parameters before any initialiser."""
    head = re.split(r"(?<![=!<>])=(?!=)|\{", _without_template_arguments(re.sub(r"\[\[\w+\]\]", "", statement)))[0]
    return "(" in head or re.search(r"\boperator\b", head) is not None


def _count(body, kind):
    access, members, private_methods = ("private" if kind == "class" else "public"), 0, 0
    for statement in _statements(body):
        statement = re.sub(r"^\s*#[^\n]*$", "", statement, flags=re.MULTILINE).strip()
        while match := re.match(r"(public|private|protected)\s*:(?!:)\s*", statement):
            access, statement = match[1], statement[match.end() :]
        # After `a_{1}` in a constructor's list, the rest of the constructor is its body.
        if not statement or statement.startswith(("{", ",")):
            continue
        plain = re.sub(r"^(?:\[\[[^\]]*\]\]\s*|virtual\s+|explicit\s+|inline\s+|constexpr\s+)+", "", statement)
        is_template = plain.startswith("template")
        if _is_function(statement) and not re.match(r"(?:using|typedef|friend|static_assert)\b", plain):
            private_methods += access == "private"
        elif not is_template and not _NOT_A_MEMBER.match(plain):
            members += 1
    return members, private_methods


def classes(text):
    """The classes and structs of a file, inner ones too."""
    text = source_tree.without_comments_and_strings(text)
    found = []
    for match in _CLASS.finditer(text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        members, private_methods = _count(text[match.end() : end - 1], match[1])
        found.append(Class(match[2], match[1] == "struct", members, private_methods))
    return found


def defined_classes(text):
    """The names before `::` of the functions that a source file defines outside of classes."""
    return {match[1] for match in _QUALIFIED.finditer(source_tree.without_comments_and_strings(text))}
