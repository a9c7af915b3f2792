"""Finds variables that outlive a call: non-const globals, function statics, thread_local.

It does not parse C++: it follows braces and looks at the words before them. It knows the forms that this code base
uses; mutable_state_test.py lists them.
"""

import re
from dataclasses import dataclass

import source_tree

_NAMESPACE = re.compile(r'^\s*(?:inline\s+)?namespace\b|^\s*extern\s*""\s*$')
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b")
_NOT_A_VARIABLE = re.compile(
    r"^\s*(?:using|typedef|template|friend|namespace|class|struct|enum|union|static_assert|concept|"
    r"extern\s*\"\"|public|private|protected|return|case|default|goto|delete|throw)\b"
)


@dataclass(frozen=True)
class Variable:
    line: int
    text: str


def _without_preprocessor(text):
    def blank(match):
        return "\n" * match.group(0).count("\n")

    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", blank, text, flags=re.MULTILINE)


def _declarator(statement):
    """The part of the statement before the initialiser."""
    without_templates = statement
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", without_templates)
        if shorter == without_templates:
            break
        without_templates = shorter
    return re.split(r"=|\{", without_templates, maxsplit=1)[0]


def _is_immutable(declarator):
    if re.search(r"\bconstexpr\b", declarator):
        return True
    # In `const char* name` the pointer can change; in `char* const name` it cannot.
    after_last_pointer = declarator.rsplit("*", 1)[-1]
    return re.search(r"\bconst\b", after_last_pointer) is not None


def _is_variable_that_stays(statement, scope):
    if re.search(r"\bthread_local\b", statement):
        return True
    if _NOT_A_VARIABLE.match(statement) or re.search(r"\boperator\b|=\s*(?:default|delete)\s*$", statement):
        return False
    declarator = _declarator(statement)
    is_static = re.search(r"\bstatic\b", declarator) is not None
    if scope in ("function", "class") and not is_static:
        return False
    if "(" in declarator and scope != "function":
        return False  # a function, or a macro that declares a test
    if len(re.findall(r"[A-Za-z_]\w*", declarator)) < 2:
        return False  # `name;` declares nothing
    return not _is_immutable(declarator)


def _kind_of_scope(statement, outer):
    if _NAMESPACE.search(statement):
        return "namespace"
    if outer == "initialiser":
        return "function" if re.search(r"[)\]]\s*(?:mutable|noexcept|->[^;{}]*)?\s*$", statement) else "initialiser"
    declarator = _declarator(statement)
    if _TYPE.search(declarator) and "(" not in declarator.replace("alignas(", ""):
        return "class"
    ends_like_function = re.search(
        r"(?:\)|\b(?:const|noexcept|override|final|mutable|else|do|try|requires)|->[^;{}=]*)\s*$", statement.rstrip()
    )
    if ends_like_function and not re.search(r"=\s*$", statement):
        return "function"
    if not statement.strip():
        return "function"  # a block
    if re.search(r"\)\s*(?:noexcept(?:\([^)]*\))?\s*)?:\s*.*$", statement, re.DOTALL):
        return "function"  # a constructor; members with braces follow, and their braces balance
    return "initialiser"


def find(text):
    """Variables of one file that keep their value from call to call."""
    text = _without_preprocessor(source_tree.without_comments_and_strings(text))
    found = []
    scopes = ["namespace"]
    statement = ""
    statement_line = line = 1
    pending = []  # statements whose initialiser has not ended

    def end_statement():
        nonlocal statement
        if statement.strip() and _is_variable_that_stays(statement, scopes[-1]):
            found.append(Variable(statement_line, " ".join(statement.split())))
        statement = ""

    for character in text:
        if character == "\n":
            line += 1
        if character == "{":
            kind = _kind_of_scope(statement, scopes[-1])
            if kind == "initialiser":
                pending.append((statement + "{", statement_line))
            else:
                pending.append(None)
            scopes.append(kind)
            statement, statement_line = "", line
        elif character == "}":
            if len(scopes) > 1:
                scopes.pop()
                resumed = pending.pop()
                statement, statement_line = resumed if resumed else ("", line)
        elif character == ";" and scopes[-1] != "initialiser":
            end_statement()
            statement_line = line
        else:
            if not statement.strip():
                statement_line = line
            statement += character
            if scopes[-1] == "class" and re.search(r"\b(?:public|private|protected)\s*:$", statement):
                statement = ""
    return found
