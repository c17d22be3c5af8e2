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
