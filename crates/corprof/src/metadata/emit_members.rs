//! Adding to metadata: fields, parameters, properties, events, attributes.

use super::abi::COR_SECATTR;
use super::constant::Constant;
use super::emit::{MetadataEmit, ended_methods};
use super::methods::start_and_length;
use super::token::*;
use super::{EventAttributes, FieldAttributes, ParamAttributes, PropertyAttributes};
use crate::info::call::{check, raw, wide};
use crate::info::error::Result;

/// A field to be defined.
#[derive(Clone, Debug)]
pub struct FieldDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Flags.
    pub attributes: FieldAttributes,
    /// Its signature, as [`encode_field`](crate::signature::encode_field) makes it.
    pub signature: &'a [u8],
    /// Its value, if it is a constant.
    pub constant: Option<Constant>,
}

/// A property to be defined.
#[derive(Clone, Debug)]
pub struct PropertyDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Flags.
    pub attributes: PropertyAttributes,
    /// Its signature, as [`PropertySig::encode`](crate::signature::PropertySig::encode) makes it.
    pub signature: &'a [u8],
    /// Its default value.
    pub default: Option<Constant>,
    /// The method that sets it.
    pub setter: Option<MethodDef>,
    /// The method that gets it.
    pub getter: Option<MethodDef>,
    /// Other accessors.
    pub others: &'a [MethodDef],
}

/// An event to be defined.
#[derive(Clone, Copy, Debug)]
pub struct EventDefinition<'a> {
    /// Its name.
    pub name: &'a str,
    /// Flags.
    pub attributes: EventAttributes,
    /// Type of its handlers.
    pub handler: Token,
    /// The method that adds a handler.
    pub add: MethodDef,
    /// The method that removes a handler.
    pub remove: MethodDef,
    /// The method that raises it.
    pub fire: Option<MethodDef>,
    /// Other accessors.
    pub others: &'a [MethodDef],
}

/// A security attribute of .NET Framework.
#[derive(Clone, Copy, Debug)]
pub struct SecurityAttribute<'a> {
    /// Its constructor.
    pub constructor: MemberRef,
    /// Its encoded arguments.
    pub value: &'a [u8],
}

/// A constant as the emitting methods take it: element type, bytes, length in UTF-16 units for
/// texts.
struct RawConstant {
    element: u32,
    bytes: Vec<u8>,
    units: u32,
}

impl RawConstant {
    fn new(constant: Option<&Constant>) -> Self {
        match constant {
            Some(constant) => {
                let (bytes, units) = constant.to_bytes();
                Self { element: u32::from(constant.element()), bytes, units }
            }
            // ELEMENT_TYPE_VOID says that there is none.
            None => Self { element: 1, bytes: Vec::new(), units: 0 },
        }
    }

    fn start(&self) -> *const u8 {
        if self.element == 1 { core::ptr::null() } else { self.bytes.as_ptr() }
    }
}

impl MetadataEmit {
    /// Defines a field (`DefineField`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_field(&self, class: TypeDef, field: &FieldDefinition<'_>) -> Result<FieldDef> {
        const CALL: &str = "DefineField";
        let (name, constant) = (wide(CALL, field.name)?, RawConstant::new(field.constant.as_ref()));
        let (signature, length) = start_and_length(field.signature);
        let mut token = FieldDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineField(
                    class,
                    name.as_ptr(),
                    field.attributes.bits(),
                    signature,
                    length,
                    constant.element,
                    constant.start(),
                    constant.units,
                    &mut token,
                )
            ),
        )?;
        Ok(token)
    }

    /// Changes a field's flags and constant (`SetFieldProps`). What is `None` stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_field_props(
        &self,
        field: FieldDef,
        attributes: Option<FieldAttributes>,
        constant: Option<&Constant>,
    ) -> Result<()> {
        let constant = RawConstant::new(constant);
        check(
            "SetFieldProps",
            raw!(
                self.emit,
                SetFieldProps(
                    field,
                    attributes.map_or(u32::MAX, FieldAttributes::bits),
                    constant.element,
                    constant.start(),
                    constant.units,
                )
            ),
        )
    }

    /// Says where a field's bytes are in the image (`SetFieldRVA`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_field_rva(&self, field: FieldDef, rva: u32) -> Result<()> {
        check("SetFieldRVA", raw!(self.emit, SetFieldRVA(field, rva)))
    }

    /// Says how a field or parameter is marshalled (`SetFieldMarshal`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_marshalling(&self, of: Token, native_type: &[u8]) -> Result<()> {
        let (start, length) = start_and_length(native_type);
        check("SetFieldMarshal", raw!(self.emit, SetFieldMarshal(of, start, length)))
    }

    /// Takes that away (`DeleteFieldMarshal`).
    ///
    /// # Errors
    /// `CLDB_E_RECORD_NOTFOUND` if there is none.
    pub fn delete_marshalling(&self, of: Token) -> Result<()> {
        check("DeleteFieldMarshal", raw!(self.emit, DeleteFieldMarshal(of)))
    }

    /// Defines a parameter at place `sequence`, from 1; 0 is the return value (`DefineParam`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_param(
        &self,
        method: MethodDef,
        sequence: u32,
        name: &str,
        attributes: ParamAttributes,
        default: Option<&Constant>,
    ) -> Result<ParamDef> {
        const CALL: &str = "DefineParam";
        let (name, default) = (wide(CALL, name)?, RawConstant::new(default));
        let mut param = ParamDef::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineParam(
                    method,
                    sequence,
                    name.as_ptr(),
                    attributes.bits(),
                    default.element,
                    default.start(),
                    default.units,
                    &mut param,
                )
            ),
        )?;
        Ok(param)
    }

    /// Changes a parameter (`SetParamProps`). What is `None` stays.
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn set_param_props(
        &self,
        param: ParamDef,
        name: Option<&str>,
        attributes: Option<ParamAttributes>,
        default: Option<&Constant>,
    ) -> Result<()> {
        const CALL: &str = "SetParamProps";
        let name = name.map(|name| wide(CALL, name)).transpose()?;
        let default = RawConstant::new(default);
        check(
            CALL,
            raw!(
                self.emit,
                SetParamProps(
                    param,
                    name.as_ref().map_or(core::ptr::null(), |name| name.as_ptr()),
                    attributes.map_or(u32::MAX, ParamAttributes::bits),
                    default.element,
                    default.start(),
                    default.units,
                )
            ),
        )
    }

    /// Defines a property (`DefineProperty`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_property(
        &self,
        class: TypeDef,
        property: &PropertyDefinition<'_>,
    ) -> Result<Property> {
        const CALL: &str = "DefineProperty";
        let (name, default) =
            (wide(CALL, property.name)?, RawConstant::new(property.default.as_ref()));
        let (signature, length) = start_and_length(property.signature);
        let others = ended_methods(property.others);
        let mut token = Property::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineProperty(
                    class,
                    name.as_ptr(),
                    property.attributes.bits(),
                    signature,
                    length,
                    default.element,
                    default.start(),
                    default.units,
                    property.setter.unwrap_or_default(),
                    property.getter.unwrap_or_default(),
                    others.as_ptr(),
                    &mut token,
                )
            ),
        )?;
        Ok(token)
    }

    /// Changes a property's flags, default and accessors (`SetPropertyProps`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_property_props(
        &self,
        property: Property,
        attributes: PropertyAttributes,
        default: Option<&Constant>,
        setter: Option<MethodDef>,
        getter: Option<MethodDef>,
        others: &[MethodDef],
    ) -> Result<()> {
        let (default, others) = (RawConstant::new(default), ended_methods(others));
        check(
            "SetPropertyProps",
            raw!(
                self.emit,
                SetPropertyProps(
                    property,
                    attributes.bits(),
                    default.element,
                    default.start(),
                    default.units,
                    setter.unwrap_or_default(),
                    getter.unwrap_or_default(),
                    others.as_ptr(),
                )
            ),
        )
    }

    /// Defines an event (`DefineEvent`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn define_event(&self, class: TypeDef, event: &EventDefinition<'_>) -> Result<Event> {
        const CALL: &str = "DefineEvent";
        let (name, others) = (wide(CALL, event.name)?, ended_methods(event.others));
        let mut token = Event::NIL;
        check(
            CALL,
            raw!(
                self.emit,
                DefineEvent(
                    class,
                    name.as_ptr(),
                    event.attributes.bits(),
                    event.handler,
                    event.add,
                    event.remove,
                    event.fire.unwrap_or_default(),
                    others.as_ptr(),
                    &mut token,
                )
            ),
        )?;
        Ok(token)
    }

    /// Changes an event's flags, handler type and accessors (`SetEventProps`); the name stays.
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_event_props(&self, event: Event, to: &EventDefinition<'_>) -> Result<()> {
        let others = ended_methods(to.others);
        check(
            "SetEventProps",
            raw!(
                self.emit,
                SetEventProps(
                    event,
                    to.attributes.bits(),
                    to.handler,
                    to.add,
                    to.remove,
                    to.fire.unwrap_or_default(),
                    others.as_ptr(),
                )
            ),
        )
    }

    /// Attaches a custom attribute (`DefineCustomAttribute`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_custom_attribute(
        &self,
        owner: Token,
        constructor: Token,
        value: &[u8],
    ) -> Result<CustomAttribute> {
        let (start, length) = start_and_length(value);
        let mut attribute = CustomAttribute::NIL;
        check(
            "DefineCustomAttribute",
            raw!(
                self.emit,
                DefineCustomAttribute(owner, constructor, start, length, &mut attribute)
            ),
        )?;
        Ok(attribute)
    }

    /// Changes a custom attribute's arguments (`SetCustomAttributeValue`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_custom_attribute_value(
        &self,
        attribute: CustomAttribute,
        value: &[u8],
    ) -> Result<()> {
        let (start, length) = start_and_length(value);
        check(
            "SetCustomAttributeValue",
            raw!(self.emit, SetCustomAttributeValue(attribute, start, length)),
        )
    }

    /// Attaches declarative security (`DefinePermissionSet`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_permission_set(
        &self,
        owner: Token,
        action: u32,
        permission: &[u8],
    ) -> Result<Permission> {
        let (start, length) = start_and_length(permission);
        let mut token = Permission::NIL;
        check(
            "DefinePermissionSet",
            raw!(self.emit, DefinePermissionSet(owner, action, start, length, &mut token)),
        )?;
        Ok(token)
    }

    /// Changes declarative security (`SetPermissionSetProps`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn set_permission_set_props(
        &self,
        owner: Token,
        action: u32,
        permission: &[u8],
    ) -> Result<Permission> {
        let (start, length) = start_and_length(permission);
        let mut token = Permission::NIL;
        check(
            "SetPermissionSetProps",
            raw!(self.emit, SetPermissionSetProps(owner, action, start, length, &mut token)),
        )?;
        Ok(token)
    }

    /// Attaches security attributes as one permission set (`DefineSecurityAttributeSet`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn define_security_attributes(
        &self,
        owner: Token,
        attributes: &[SecurityAttribute<'_>],
    ) -> Result<()> {
        let attributes = attributes
            .iter()
            .map(|attribute| COR_SECATTR {
                constructor: attribute.constructor,
                value: attribute.value.as_ptr(),
                value_len: attribute.value.len() as u32,
            })
            .collect::<Vec<_>>();
        let mut at_fault = 0;
        check(
            "DefineSecurityAttributeSet",
            raw!(
                self.emit,
                DefineSecurityAttributeSet(
                    owner,
                    attributes.as_ptr(),
                    attributes.len() as u32,
                    &mut at_fault
                )
            ),
        )
    }
}
