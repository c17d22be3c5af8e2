"""What is looked for in each language's syntax tree, as tree-sitter queries.

Invariant: a match of `DEFINED` has `@name` and one `@<kind>` that spans the definition, and `@body` where it
has one; of `CALLED` `@callee` and perhaps `@receiver`; `@import` is a node that relay.code.read.imports
reads; `@skip` is text in which words are no names (comments, the insides of strings).
"""

from __future__ import annotations

_PYTHON = """
(function_definition name: (identifier) @name body: (_) @body) @function
(class_definition name: (identifier) @name body: (_) @body) @class
(module (expression_statement (assignment left: (identifier) @name right: (_)? @body) @constant))
(module (type_alias_statement left: (type (identifier) @name) right: (_) @body) @type)
(call function: (identifier) @callee)
(call function: (attribute object: (_) @receiver attribute: (identifier) @callee))
(import_statement) @import
(import_from_statement) @import
"""

_SCRIPT = """
(function_declaration name: (identifier) @name body: (_) @body) @function
(generator_function_declaration name: (identifier) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @method
(program (lexical_declaration (variable_declarator name: (identifier) @name value: (_)? @body) @constant))
(program (variable_declaration (variable_declarator name: (identifier) @name value: (_)? @body) @constant))
(export_statement (lexical_declaration
  (variable_declarator name: (identifier) @name value: (_)? @body) @constant))
(assignment_expression left: (member_expression property: (property_identifier) @name)
  right: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]) @function
(call_expression function: (identifier) @callee)
(call_expression function: (member_expression object: (_) @receiver property: (property_identifier) @callee))
(new_expression constructor: (identifier) @callee)
(import_statement) @import
(export_statement source: (string)) @import
(call_expression function: (identifier) @_require (#eq? @_require "require")) @import
(call_expression function: (import)) @import
"""

_JAVASCRIPT = (
    """
(class_declaration name: (identifier) @name body: (_) @body) @class
(field_definition property: (_) @name value: (arrow_function body: (_) @body)) @method
"""
    + _SCRIPT
)

_TYPESCRIPT = (
    """
(class_declaration name: (type_identifier) @name body: (_) @body) @class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @class
(interface_declaration name: (type_identifier) @name body: (_) @body) @type
(type_alias_declaration name: (type_identifier) @name value: (_) @body) @type
(enum_declaration name: (identifier) @name body: (_) @body) @type
(internal_module name: (_) @name body: (_) @body) @namespace
(function_signature name: (identifier) @name) @function
(public_field_definition name: (_) @name value: (arrow_function body: (_) @body)) @method
"""
    + _SCRIPT
)

_GO = """
(function_declaration name: (identifier) @name body: (_)? @body) @function
(method_declaration name: (field_identifier) @name body: (_)? @body) @method
(type_spec name: (type_identifier) @name type: (_) @body) @type
(type_alias name: (type_identifier) @name type: (_) @body) @type
(source_file (const_declaration (const_spec name: (identifier) @name value: (_)? @body) @constant))
(source_file (var_declaration (var_spec name: (identifier) @name value: (_)? @body) @constant))
(source_file (var_declaration (var_spec_list
  (var_spec name: (identifier) @name value: (_)? @body) @constant)))
(call_expression function: (identifier) @callee)
(call_expression function: (selector_expression operand: (_) @receiver field: (field_identifier) @callee))
(import_spec) @import
(package_clause (package_identifier) @package)
(short_var_declaration left: (expression_list (identifier) @local))
(parameter_declaration name: (identifier) @local)
(range_clause left: (expression_list (identifier) @local))
(block (statement_list (var_declaration (var_spec name: (identifier) @local))))
"""

_RUST = """
(function_item name: (identifier) @name body: (_) @body) @function
(function_signature_item name: (identifier) @name) @function
(struct_item name: (type_identifier) @name body: (_)? @body) @type
(enum_item name: (type_identifier) @name body: (_) @body) @type
(union_item name: (type_identifier) @name body: (_) @body) @type
(trait_item name: (type_identifier) @name body: (_) @body) @class
(type_item name: (type_identifier) @name type: (_) @body) @type
(const_item name: (identifier) @name value: (_)? @body) @constant
(static_item name: (identifier) @name value: (_)? @body) @constant
(mod_item name: (identifier) @name body: (_) @body) @namespace
(impl_item type: (_) @name body: (_) @body) @implementation
(macro_definition name: (identifier) @name) @macro
(call_expression function: (identifier) @callee)
(call_expression function: (scoped_identifier path: (_) @receiver name: (identifier) @callee))
(call_expression function: (field_expression value: (_) @receiver field: (field_identifier) @callee))
(macro_invocation macro: (identifier) @callee)
(mod_item !body) @import
(use_declaration) @import
(extern_crate_declaration) @import
(source_file (macro_invocation (token_tree) @items))
(source_file (expression_statement (macro_invocation (token_tree) @items)))
"""

_JAVA = """
(class_declaration name: (identifier) @name body: (_) @body) @class
(interface_declaration name: (identifier) @name body: (_) @body) @class
(enum_declaration name: (identifier) @name body: (_) @body) @class
(record_declaration name: (identifier) @name body: (_) @body) @class
(annotation_type_declaration name: (identifier) @name body: (_) @body) @class
(method_declaration name: (identifier) @name body: (_)? @body) @method
(constructor_declaration name: (identifier) @name body: (_) @body) @method
(method_invocation object: (_)? @receiver name: (identifier) @callee)
(object_creation_expression type: (type_identifier) @callee)
(import_declaration) @import
(package_declaration (_) @package)
"""

_C = """
(function_definition declarator: (_) @name body: (_) @body) @function
(translation_unit (declaration declarator: (function_declarator) @name) @declaration)
(struct_specifier name: (type_identifier) @name body: (_) @body) @type
(union_specifier name: (type_identifier) @name body: (_) @body) @type
(enum_specifier name: (type_identifier) @name body: (_) @body) @type
(type_definition type: (_) @body declarator: (type_identifier) @name) @type
(preproc_def name: (identifier) @name value: (_)? @body) @macro
(preproc_function_def name: (identifier) @name value: (_)? @body) @macro
(translation_unit (declaration declarator: (init_declarator declarator: (_) @name value: (_) @body)) @constant)
(call_expression function: (identifier) @callee)
(call_expression function: (field_expression argument: (_) @receiver field: (field_identifier) @callee))
(preproc_include) @import
"""

_CPP = (
    """
(class_specifier name: (_) @name body: (_) @body) @class
(namespace_definition name: (_) @name body: (_) @body) @namespace
(alias_declaration name: (type_identifier) @name type: (_) @body) @type
(call_expression function: (qualified_identifier scope: (_) @receiver name: (_) @callee))
(call_expression function: (template_function name: (identifier) @callee))
"""
    + _C
)

PATTERNS = {
    "python": _PYTHON,
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
    "c": _C,
    "cpp": _CPP,
}

SKIPPED = {
    "python": "(comment) @skip (string_content) @skip",
    "javascript": "(comment) @skip (string_fragment) @skip (regex) @skip",
    "typescript": "(comment) @skip (string_fragment) @skip (regex) @skip",
    "tsx": "(comment) @skip (string_fragment) @skip (regex) @skip (jsx_text) @skip",
    "go": "(comment) @skip (interpreted_string_literal) @skip (raw_string_literal) @skip (rune_literal) @skip",
    "rust": "(line_comment) @skip (block_comment) @skip (string_content) @skip (char_literal) @skip",
    "java": "(line_comment) @skip (block_comment) @skip (string_literal) @skip (character_literal) @skip",
    "c": "(comment) @skip (string_content) @skip (system_lib_string) @skip (char_literal) @skip",
    "cpp": "(comment) @skip (string_content) @skip (system_lib_string) @skip (char_literal) @skip "
    "(raw_string_content) @skip",
}
