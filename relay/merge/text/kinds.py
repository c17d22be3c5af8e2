"""What the nodes of the eight grammars are: definitions with names, containers with members, comments.

Invariant: a name tells a definition from each other one of its container, overloads apart; what has no
name is known by its text.
"""

from __future__ import annotations

from tree_sitter import Node


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Nodes by what they are. A node of another type is a statement.
_KIND_OF = {
    "def": "function_definition function_declaration generator_function_declaration method_definition "
    "method_declaration constructor_declaration function_item function_signature_item method_signature "
    "abstract_method_signature function_signature macro_definition method_elem method_spec "
    "compact_constructor_declaration preproc_function_def",
    "class": "class_definition class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "struct_item enum_item union_item trait_item impl_item mod_item type_alias_declaration "
    "type_declaration type_item annotation_type_declaration record_declaration internal_module "
    "module_declaration class_specifier struct_specifier enum_specifier union_specifier "
    "namespace_definition type_definition foreign_mod_item linkage_specification type_spec type_alias "
    "alias_declaration",
    "value": "lexical_declaration variable_declaration const_declaration var_declaration const_item static_item "
    "field_declaration public_field_definition field_definition declaration preproc_def const_spec "
    "var_spec property_signature constant_declaration assignment",
    "import": "import_statement import_from_statement future_import_statement import_declaration import_spec "
    "use_declaration extern_crate_declaration preproc_include using_declaration package_clause "
    "package_declaration",
    "item": "pair keyed_element enum_variant enum_constant enumerator enum_assignment keyword_argument "
    "initializer_pair field_initializer",
    "case": "match_arm switch_case switch_default case_clause expression_case type_case communication_case "
    "switch_block_statement_group switch_rule case_statement default_case except_clause",
}
KINDS = {name: kind for kind, names in _KIND_OF.items() for name in names.split()}
#: Kinds of which a container has each name once (rule 2 of the guard).
DEFINITIONS = frozenset({"def", "class", "value"})
#: Nodes that only wrap others.
TRANSPARENT = _set(
    "block if_statement else_clause elif_clause try_statement except_clause finally_clause preproc_if "
    "preproc_ifdef preproc_else preproc_elif declaration_list"
)
#: Nodes that hold members or items side by side.
BODIES = _set(
    "module program source_file translation_unit block statement_block class_body interface_body "
    "enum_body  object_type declaration_list field_declaration_list enum_variant_list "
    "enum_body_declarations enumerator_list  compound_statement import_spec_list field_declaration_list "
    "match_block switch_body annotation_type_body  constructor_body list dictionary set tuple object "
    "array array_expression tuple_expression literal_value  initializer_list argument_list arguments "
    "token_tree var_spec_list const_declaration named_imports  export_clause expression_list parameters "
    "formal_parameters record_pattern field_initializer_list  method_spec_list switch_block "
    "array_initializer"
)
#: What the parent of units may be. LISTS: items whose order says little; PLACES: arguments, whose place says what
#: they are; CODE: statements; elsewhere: definitions and members.
LISTS = _set(
    "list dictionary set object array array_expression literal_value initializer_list enum_body "
    "enumerator_list  enum_variant_list named_imports export_clause import_from_statement use_list "
    "import_spec_list array_initializer object_pattern"
)
#: Those of data, by lines.
MAPPINGS = frozenset({"yaml mapping", "toml mapping"})
PLACES = _set("argument_list arguments parameters formal_parameters tuple token_tree tuple_expression")
CODE = _set("code")
COMMAS = LISTS - {"import_spec_list"} | PLACES
#: Members of an enumeration that have a number by their place, unless they have a value.
NUMBERED = _set("enumerator property_identifier")
#: Calls that name tests, which stand in any order.
TESTS = frozenset(f"call {name}" for name in ("it", "test", "describe", "suite", "specify", "context"))
#: Kinds that stand in any order in a file or a class.
FREE = frozenset({"def", "class", "value", "import", "comment", "item", "case"})
#: Cases of which the first that fits counts, whatever stands below.
IN_ORDER = _set("except_clause")
#: Cases that go on with the next one, unless one of these statements ends them.
FALLING = _set("switch_case switch_default case_statement default_case switch_block_statement_group")
LEAVING = _set(
    "break_statement return_statement throw_statement continue_statement goto_statement yield_statement"
)
#: How a case begins that takes everything, in a language where cases are tried in their order.
ANYTHING = ("_", "case _")
#: Tokens without a name that are items.
NAMELESS_UNITS = frozenset({"..."})
_COMMENTS = _set("comment line_comment block_comment")
_ABOVE = _set("attribute_item decorator marker_annotation annotation")
_WRAPPERS = _set("decorated_definition export_statement template_declaration ambient_declaration")
_NAMED = frozenset(
    {"identifier", "type_identifier", "field_identifier", "property_identifier", "namespace_identifier"}
)


def is_comment(node: Node) -> bool:
    return node.type in _COMMENTS


def attaches(node: Node) -> bool:
    """Does it belong to what stands below it?"""
    return node.type in _COMMENTS or node.type in _ABOVE


def text_of(node: Node | None) -> str:
    if node is None or node.text is None:
        return ""
    return " ".join(node.text.decode("utf-8", "replace").split())


def inner(node: Node) -> Node:
    """What a wrapper (decorators, `export`, `template<...>`) wraps."""
    while node.type in _WRAPPERS:
        found = node.child_by_field_name("definition") or node.child_by_field_name("declaration")
        if found is None:
            found = next((child for child in reversed(node.named_children) if child.type in KINDS), None)
        if found is None:
            return node
        node = found
    if node.type == "expression_statement" and node.named_child_count == 1:
        only = node.named_children[0]
        if only.type in ("assignment", "assignment_expression", "call", "call_expression", "internal_module"):
            return only
    return node


def name_of(node: Node) -> tuple[str, str]:
    """Kind and name of a node; the name is "" where it has none."""
    node = inner(node)
    kind = KINDS.get(node.type, "")
    if node.type in ("assignment", "assignment_expression"):
        return "value", text_of(node.child_by_field_name("left"))
    if node.type in ("call", "call_expression"):
        return _call(node)
    if node.type == "impl_item":
        return "class", " for ".join(
            part
            for part in (
                text_of(node.child_by_field_name("trait")),
                text_of(node.child_by_field_name("type")),
            )
            if part
        )
    if kind in ("import", ""):
        return kind or node.type, ""
    if kind in ("item", "case"):
        name = _item(node)
        quoted = kind == "item" and len(name) > 1 and name[0] == name[-1] == "'"
        return kind, f'"{name[1:-1]}"' if quoted else name
    name = text_of(node.child_by_field_name("name"))
    if node.type == "method_declaration" and node.child_by_field_name("receiver") is not None:
        receiver = text_of(node.child_by_field_name("receiver")).strip("()").split(" ")[-1].lstrip("*")
        return kind, f"{receiver}.{name}"
    if node.type in ("method_declaration", "constructor_declaration"):  # Java: by the types of the parameters
        name += _types(node.child_by_field_name("parameters"))
    if not name and node.child_by_field_name("declarator") is not None:
        name = ", ".join(_declared(child) for child in node.children_by_field_name("declarator"))
    if not name:
        parts = [child for child in node.named_children if child.child_by_field_name("name") is not None]
        name = ", ".join(text_of(child.child_by_field_name("name")) for child in parts)
    if node.type == "lexical_declaration" and name.startswith("{"):
        return "value", ""
    if not name and kind == "class" and node.type == "linkage_specification":
        name = text_of(node.child_by_field_name("value"))
    return kind, name


def _types(parameters: Node | None) -> str:
    if parameters is None:
        return "()"
    return (
        "("
        + ", ".join(text_of(child.child_by_field_name("type")) for child in parameters.named_children)
        + ")"
    )


def _declared(node: Node) -> str:
    """The name in a declarator of C, with the parameters of a function."""
    parameters = ""
    while True:
        found = node.child_by_field_name("declarator")
        if node.type == "function_declarator":
            parameters = _types(node.child_by_field_name("parameters"))
        if found is None:
            name = node.child_by_field_name("name") if node.type == "variable_declarator" else None
            inside = [
                child for child in node.named_children if child.type in _NAMED | {"function_declarator"}
            ]
            if name is None and node.type not in _NAMED and len(inside) == 1:
                if inside[0].type == "function_declarator":
                    node = inside[0]
                    continue
                name = inside[0]
            return text_of(name if name is not None else node) + parameters
        node = found


def _item(node: Node) -> str:
    for field in ("key", "name", "pattern", "value", "left"):
        found = node.child_by_field_name(field)
        if found is not None:
            return text_of(found)
    return text_of(node.named_children[0]) if node.named_children else ""


def _call(node: Node) -> tuple[str, str]:
    """A call by its function and a first argument that is a string: `it("does")`, `app.get("/")`."""
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    first = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    if first is not None and first.type in ("string", "interpreted_string_literal", "string_literal"):
        return f"call {text_of(function)}", text_of(first)
    return f"call {text_of(function)}", ""


def body_of(node: Node) -> Node | None:
    """Where the members of a container are; None for what has none (a function's statements are no members)."""
    node = inner(node)
    if node.type == "pair":
        value = node.child_by_field_name("value")
        return value if value is not None and value.type == "object" else None
    if KINDS.get(node.type) != "class":
        return None
    if node.type == "type_declaration":  # Go: the body of its one type
        specs = [child for child in node.named_children if child.type == "type_spec"]
        if len(specs) != 1:
            return None
        type = specs[0].child_by_field_name("type")
        if type is None:
            return None
        if type.type == "struct_type":
            return next(
                (child for child in type.named_children if child.type == "field_declaration_list"), None
            )
        return None
    body = node.child_by_field_name("body")
    if body is None and node.type == "type_definition":
        type = node.child_by_field_name("type")
        body = type.child_by_field_name("body") if type is not None else None
    return body


def parent_of(node: Node) -> str:
    """What holds units: the type of the node, or "code" for the statements of a function."""
    if node.type in ("block", "statement_block", "compound_statement", "statement_list", "constructor_body"):
        above = node.parent
        return "members" if above is not None and KINDS.get(above.type) == "class" else "code"
    return node.type
