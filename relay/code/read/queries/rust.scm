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
