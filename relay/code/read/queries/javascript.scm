(class_declaration name: (identifier) @name body: (_) @body) @class
(field_definition property: (_) @name value: (arrow_function body: (_) @body)) @method
