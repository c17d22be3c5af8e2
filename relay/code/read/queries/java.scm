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
