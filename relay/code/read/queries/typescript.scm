(class_declaration name: (type_identifier) @name body: (_) @body) @class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @class
(interface_declaration name: (type_identifier) @name body: (_) @body) @type
(type_alias_declaration name: (type_identifier) @name value: (_) @body) @type
(enum_declaration name: (identifier) @name body: (_) @body) @type
(internal_module name: (_) @name body: (_) @body) @namespace
(function_signature name: (identifier) @name) @function
(public_field_definition name: (_) @name value: (arrow_function body: (_) @body)) @method
