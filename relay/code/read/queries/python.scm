(function_definition name: (identifier) @name body: (_) @body) @function
(class_definition name: (identifier) @name body: (_) @body) @class
(module (expression_statement (assignment left: (identifier) @name right: (_)? @body) @constant))
(module (type_alias_statement left: (type (identifier) @name) right: (_) @body) @type)
(call function: (identifier) @callee)
(call function: (attribute object: (_) @receiver attribute: (identifier) @callee))
(import_statement) @import
(import_from_statement) @import
