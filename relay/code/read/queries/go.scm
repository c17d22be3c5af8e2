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
