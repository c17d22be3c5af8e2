(class_specifier name: (_) @name body: (_) @body) @class
(namespace_definition name: (_) @name body: (_) @body) @namespace
(alias_declaration name: (type_identifier) @name type: (_) @body) @type
(call_expression function: (qualified_identifier scope: (_) @receiver name: (_) @callee))
(call_expression function: (template_function name: (identifier) @callee))
