//! Properties, events, and members of any kind.

use super::constant::Constant;
use super::methods::start_and_length;
use super::token::*;
use super::{EventAttributes, Metadata, MethodImplAttributes, PropertyAttributes, TokenEnum};
use crate::info::call::{blob, found, list, raw, text, wide};
use crate::info::error::Result;

/// A property of this module.
#[derive(Clone, Debug, PartialEq)]
pub struct PropertyProps<'a> {
    /// Its type.
    pub class: TypeDef,
    /// Its name.
    pub name: String,
    /// Flags.
    pub attributes: PropertyAttributes,
    /// Its signature, for [`PropertySig::decode`](crate::signature::PropertySig::decode).
    pub signature: &'a [u8],
    /// Its default value.
    pub default: Option<Constant>,
    /// The method that sets it.
    pub setter: Option<MethodDef>,
    /// The method that gets it.
    pub getter: Option<MethodDef>,
    /// Other accessors.
    pub others: Vec<MethodDef>,
}

/// An event of this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProps {
    /// Its type.
    pub class: TypeDef,
    /// Its name.
    pub name: String,
    /// Flags.
    pub attributes: EventAttributes,
    /// Type of its handlers: `TypeDef`, `TypeRef` or `TypeSpec`.
    pub handler: Token,
    /// The method that adds a handler.
    pub add: Option<MethodDef>,
    /// The method that removes a handler.
    pub remove: Option<MethodDef>,
    /// The method that raises it.
    pub fire: Option<MethodDef>,
    /// Other accessors.
    pub others: Vec<MethodDef>,
}

/// A method or field of this module.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberProps<'a> {
    /// Its type; nil for a global one.
    pub class: TypeDef,
    /// Its name.
    pub name: String,
    /// Flags: those of a method or of a field.
    pub attributes: u32,
    /// Its signature.
    pub signature: &'a [u8],
    /// Where its body is in the image; 0 if it has none.
    pub code_rva: u32,
    /// How a method is implemented.
    pub implementation: MethodImplAttributes,
    /// Value of a constant field.
    pub constant: Option<Constant>,
}

impl Metadata {
    /// The properties of a type (`EnumProperties`).
    pub fn properties(&self, class: TypeDef) -> TokenEnum<'_, Property> {
        self.tokens("EnumProperties", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumProperties(handle, class, buffer, room, fetched))
        })
    }

    /// The events of a type (`EnumEvents`).
    pub fn events(&self, class: TypeDef) -> TokenEnum<'_, Event> {
        self.tokens("EnumEvents", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumEvents(handle, class, buffer, room, fetched))
        })
    }

    /// Name, signature and accessors of a property (`GetPropertyProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn property_props(&self, property: Property) -> Result<PropertyProps<'_>> {
        let (mut class, mut attributes) = (TypeDef::NIL, 0);
        let (mut signature, mut length) = (core::ptr::null(), 0);
        let (mut element, mut value, mut units) = (0, core::ptr::null(), 0);
        let (mut setter, mut getter) = (MethodDef::NIL, MethodDef::NIL);
        let mut name = String::new();
        let others = list("GetPropertyProps", 4, |room_others, needed_others, others| {
            name.clear();
            let mut hresult = com::hresult::S_OK;
            // Two sizes are unknown at once: the text's is settled inside, the list's outside.
            let read = crate::info::call::text_into(
                &mut name,
                "GetPropertyProps",
                |buffer, room, needed| {
                    hresult = raw!(
                        self.import,
                        GetPropertyProps(
                            property,
                            &mut class,
                            buffer,
                            room,
                            needed,
                            &mut attributes,
                            &mut signature,
                            &mut length,
                            &mut element,
                            &mut value,
                            &mut units,
                            &mut setter,
                            &mut getter,
                            others,
                            room_others,
                            needed_others,
                        )
                    );
                    hresult
                },
            );
            read.err().and_then(|error| error.hresult()).unwrap_or(hresult)
        })?;
        Ok(PropertyProps {
            class,
            name,
            attributes: PropertyAttributes::from_bits(attributes),
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            signature: unsafe { blob(signature, length) },
            // SAFETY: the runtime answers with a constant of that type in the scope's memory, or
            // null.
            default: unsafe { Constant::read(element, value, units) },
            setter: setter.non_nil(),
            getter: getter.non_nil(),
            others,
        })
    }

    /// Name, handler type and accessors of an event (`GetEventProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn event_props(&self, event: Event) -> Result<EventProps> {
        let (mut class, mut attributes, mut handler) = (TypeDef::NIL, 0, Token::NIL);
        let (mut add, mut remove, mut fire) = (MethodDef::NIL, MethodDef::NIL, MethodDef::NIL);
        let mut name = String::new();
        let others = list("GetEventProps", 4, |room_others, needed_others, others| {
            name.clear();
            let mut hresult = com::hresult::S_OK;
            let read =
                crate::info::call::text_into(&mut name, "GetEventProps", |buffer, room, needed| {
                    hresult = raw!(
                        self.import,
                        GetEventProps(
                            event,
                            &mut class,
                            buffer,
                            room,
                            needed,
                            &mut attributes,
                            &mut handler,
                            &mut add,
                            &mut remove,
                            &mut fire,
                            others,
                            room_others,
                            needed_others,
                        )
                    );
                    hresult
                });
            read.err().and_then(|error| error.hresult()).unwrap_or(hresult)
        })?;
        Ok(EventProps {
            class,
            name,
            attributes: EventAttributes::from_bits(attributes),
            handler,
            add: add.non_nil(),
            remove: remove.non_nil(),
            fire: fire.non_nil(),
            others,
        })
    }

    /// The methods and fields of a type (`EnumMembers`).
    pub fn members(&self, class: TypeDef) -> TokenEnum<'_, Token> {
        self.tokens("EnumMembers", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMembers(handle, class, buffer, room, fetched))
        })
    }

    /// The methods and fields of a type that have this name (`EnumMembersWithName`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn members_named(&self, class: TypeDef, name: &str) -> Result<TokenEnum<'_, Token>> {
        let name = wide("EnumMembersWithName", name)?;
        Ok(self.tokens("EnumMembersWithName", move |import, handle, buffer, room, fetched| {
            raw!(import, EnumMembersWithName(handle, class, name.as_ptr(), buffer, room, fetched))
        }))
    }

    /// The method or field of a type with this name, and with this signature if one is given
    /// (`FindMember`).
    ///
    /// # Errors
    /// `E_INVALIDARG` for a name with a zero inside.
    pub fn find_member(
        &self,
        class: TypeDef,
        name: &str,
        signature: &[u8],
    ) -> Result<Option<Token>> {
        const CALL: &str = "FindMember";
        let name = wide(CALL, name)?;
        let (start, length) = start_and_length(signature);
        let mut member = Token::NIL;
        let hresult =
            raw!(self.import, FindMember(class, name.as_ptr(), start, length, &mut member));
        found(CALL, hresult, ()).map(|found| found.map(|()| member))
    }

    /// Name, flags and signature of a method or field (`GetMemberProps`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` for a row that does not exist.
    pub fn member_props(&self, member: Token) -> Result<MemberProps<'_>> {
        let (mut class, mut attributes, mut code_rva, mut implementation) = (TypeDef::NIL, 0, 0, 0);
        let (mut signature, mut length) = (core::ptr::null(), 0);
        let (mut element, mut value, mut units) = (0, core::ptr::null(), 0);
        let name = text("GetMemberProps", |buffer, room, needed| {
            raw!(
                self.import,
                GetMemberProps(
                    member,
                    &mut class,
                    buffer,
                    room,
                    needed,
                    &mut attributes,
                    &mut signature,
                    &mut length,
                    &mut code_rva,
                    &mut implementation,
                    &mut element,
                    &mut value,
                    &mut units,
                )
            )
        })?;
        Ok(MemberProps {
            class,
            name,
            attributes,
            // SAFETY: the runtime answers with a blob of that length in the scope's memory.
            signature: unsafe { blob(signature, length) },
            code_rva,
            implementation: MethodImplAttributes::from_bits(implementation),
            // SAFETY: the runtime answers with a constant of that type in the scope's memory, or
            // null.
            constant: unsafe { Constant::read(element, value, units) },
        })
    }
}
