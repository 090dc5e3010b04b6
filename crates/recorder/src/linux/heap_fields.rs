//! Fields of a heap snapshot, as the session has them.

/// A static field.
pub fn static_field(field: wire::StaticField) -> session::StaticField {
    session::StaticField { address: field.address, name: field.name }
}

/// The fields of a class.
pub fn class(class: wire::ClassFields) -> session::ClassFields {
    session::ClassFields {
        class: class.class,
        parent: class.parent,
        fields: class.fields.into_iter().map(field).collect(),
    }
}

fn field(field: wire::Field) -> session::Field {
    use wire::FieldKind;
    let kind = match field.kind {
        FieldKind::Reference => session::FieldKind::Reference,
        FieldKind::Value => session::FieldKind::Value,
        FieldKind::Other => session::FieldKind::Other,
    };
    session::Field { offset: field.offset, name: field.name, kind }
}
