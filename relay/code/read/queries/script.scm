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
