//! The metadata interfaces as the runtime's headers define them (`cor.h`), row by row in vtable
//! order.
//!
//! Names here are the header's and every method takes bare pointers; [`Metadata`](super::Metadata)
//! and its neighbours are the safe side. Tokens have their types already here, since a token is
//! only a number.
#![allow(non_camel_case_types, non_snake_case, clippy::too_many_arguments)]

use core::ffi::{c_char, c_void};

use com::hresult::E_NOTIMPL;
use com::{ComClass, Guid, HResult, IUnknown, InterfaceRef, com_interface};

use super::token::*;
use crate::abi::{ASSEMBLYMETADATA, COR_FIELD_OFFSET};

/// An enumeration that the runtime has begun; null before the first call.
pub type HCORENUM = *mut c_void;

/// A security attribute in `DefineSecurityAttributeSet` (`COR_SECATTR`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct COR_SECATTR {
    /// Constructor of the attribute.
    pub constructor: MemberRef,
    /// Its encoded arguments.
    pub value: *const u8,
    /// Length of those in bytes.
    pub value_len: u32,
}

/// An OLE variant, as far as options of a dispenser use it: a type and eight bytes of value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VARIANT {
    /// `VT_UI4` (19) for a number, `VT_BOOL` (11) for a truth value (0 or -1 in 16 bits).
    pub vt: u16,
    /// Reserved.
    pub reserved: [u16; 3],
    /// The value, from its lowest byte on.
    pub value: u64,
    /// The rest of the largest member of the union, which 64-bit systems have.
    #[cfg(target_pointer_width = "64")]
    pub rest: u64,
}

com_interface! {
    /// Notified of faults while metadata is emitted; implemented by whoever emits.
    interface IMetaDataError(IMetaDataErrorVtbl, IMetaDataErrorImpl): IUnknown(ComClass)
        = "B81FF171-20F3-11D2-8DCC-00A0C9B09C19", default E_NOTIMPL;
    fn OnError(hr_error: HResult, token: Token) -> HResult;
}

com_interface! {
    /// Notified of tokens that move while metadata is emitted or saved; implemented by whoever
    /// emits.
    interface IMapToken(IMapTokenVtbl, IMapTokenImpl): IUnknown(ComClass)
        = "06A3EA8B-0225-11D1-BF72-00C04FC31E12", default E_NOTIMPL;
    fn Map(tk_imp: Token, tk_emit: Token) -> HResult;
}

com_interface! {
    /// Opens and makes metadata scopes.
    interface IMetaDataDispenser(IMetaDataDispenserVtbl, IMetaDataDispenserImpl): IUnknown(ComClass)
        = "809C652E-7396-11D2-9771-00A0C9B4D50C", default E_NOTIMPL;
    fn DefineScope(rclsid: *const Guid, dw_create_flags: u32, riid: *const Guid, pp_i_unk: *mut *mut c_void) -> HResult;
    fn OpenScope(sz_scope: *const u16, dw_open_flags: u32, riid: *const Guid, pp_i_unk: *mut *mut c_void) -> HResult;
    fn OpenScopeOnMemory(p_data: *const u8, cb_data: u32, dw_open_flags: u32, riid: *const Guid, pp_i_unk: *mut *mut c_void) -> HResult;
}

com_interface! {
    /// [`IMetaDataDispenser`] with options. CoreCLR answers only `SetOption`, `GetOption` and what
    /// opens scopes.
    interface IMetaDataDispenserEx(IMetaDataDispenserExVtbl, IMetaDataDispenserExImpl): IMetaDataDispenser(IMetaDataDispenserImpl)
        = "31BCFCE2-DAFB-11D2-9F81-00C04F79A0A3", default E_NOTIMPL;
    fn SetOption(optionid: *const Guid, value: *const VARIANT) -> HResult;
    fn GetOption(optionid: *const Guid, pvalue: *mut VARIANT) -> HResult;
    fn OpenScopeOnITypeInfo(p_iti: *mut c_void, dw_open_flags: u32, riid: *const Guid, pp_i_unk: *mut *mut c_void) -> HResult;
    fn GetCORSystemDirectory(sz_buffer: *mut u16, cch_buffer: u32, pch_buffer: *mut u32) -> HResult;
    fn FindAssembly(sz_app_base: *const u16, sz_private_bin: *const u16, sz_global_bin: *const u16, sz_assembly_name: *const u16, sz_name: *mut u16, cch_name: u32, pc_name: *mut u32) -> HResult;
    fn FindAssemblyModule(sz_app_base: *const u16, sz_private_bin: *const u16, sz_global_bin: *const u16, sz_assembly_name: *const u16, sz_module_name: *const u16, sz_name: *mut u16, cch_name: u32, pc_name: *mut u32) -> HResult;
}

com_interface! {
    /// Writes metadata: definitions and references.
    interface IMetaDataEmit(IMetaDataEmitVtbl, IMetaDataEmitImpl): IUnknown(ComClass)
        = "BA3FEE4C-ECB9-4E41-83B7-183FA41CD859", default E_NOTIMPL;
    fn SetModuleProps(sz_name: *const u16) -> HResult;
    fn Save(sz_file: *const u16, dw_save_flags: u32) -> HResult;
    fn SaveToStream(p_i_stream: *mut c_void, dw_save_flags: u32) -> HResult;
    fn GetSaveSize(f_save: u32, pdw_save_size: *mut u32) -> HResult;
    fn DefineTypeDef(sz_type_def: *const u16, dw_type_def_flags: u32, tk_extends: Token, rtk_implements: *const Token, ptd: *mut TypeDef) -> HResult;
    fn DefineNestedType(sz_type_def: *const u16, dw_type_def_flags: u32, tk_extends: Token, rtk_implements: *const Token, td_encloser: TypeDef, ptd: *mut TypeDef) -> HResult;
    fn SetHandler(p_unk: Option<InterfaceRef<'_, IUnknown>>) -> HResult;
    fn DefineMethod(td: TypeDef, sz_name: *const u16, dw_method_flags: u32, pv_sig_blob: *const u8, cb_sig_blob: u32, ul_code_rva: u32, dw_impl_flags: u32, pmd: *mut MethodDef) -> HResult;
    fn DefineMethodImpl(td: TypeDef, tk_body: Token, tk_decl: Token) -> HResult;
    fn DefineTypeRefByName(tk_resolution_scope: Token, sz_name: *const u16, ptr: *mut TypeRef) -> HResult;
    fn DefineImportType(p_assem_import: Option<InterfaceRef<'_, IMetaDataAssemblyImport>>, pb_hash_value: *const u8, cb_hash_value: u32, p_import: Option<InterfaceRef<'_, IMetaDataImport>>, td_import: TypeDef, p_assem_emit: Option<InterfaceRef<'_, IMetaDataAssemblyEmit>>, ptr: *mut TypeRef) -> HResult;
    fn DefineMemberRef(tk_import: Token, sz_name: *const u16, pv_sig_blob: *const u8, cb_sig_blob: u32, pmr: *mut MemberRef) -> HResult;
    fn DefineImportMember(p_assem_import: Option<InterfaceRef<'_, IMetaDataAssemblyImport>>, pb_hash_value: *const u8, cb_hash_value: u32, p_import: Option<InterfaceRef<'_, IMetaDataImport>>, mb_member: Token, p_assem_emit: Option<InterfaceRef<'_, IMetaDataAssemblyEmit>>, tk_parent: Token, pmr: *mut MemberRef) -> HResult;
    fn DefineEvent(td: TypeDef, sz_event: *const u16, dw_event_flags: u32, tk_event_type: Token, md_add_on: MethodDef, md_remove_on: MethodDef, md_fire: MethodDef, rmd_other_methods: *const MethodDef, pmd_event: *mut Event) -> HResult;
    fn SetClassLayout(td: TypeDef, dw_pack_size: u32, r_field_offsets: *const COR_FIELD_OFFSET, ul_class_size: u32) -> HResult;
    fn DeleteClassLayout(td: TypeDef) -> HResult;
    fn SetFieldMarshal(tk: Token, pv_native_type: *const u8, cb_native_type: u32) -> HResult;
    fn DeleteFieldMarshal(tk: Token) -> HResult;
    fn DefinePermissionSet(tk: Token, dw_action: u32, pv_permission: *const u8, cb_permission: u32, ppm: *mut Permission) -> HResult;
    fn SetRVA(md: MethodDef, ul_rva: u32) -> HResult;
    fn GetTokenFromSig(pv_sig: *const u8, cb_sig: u32, pmsig: *mut Signature) -> HResult;
    fn DefineModuleRef(sz_name: *const u16, pmur: *mut ModuleRef) -> HResult;
    fn SetParent(mr: MemberRef, tk: Token) -> HResult;
    fn GetTokenFromTypeSpec(pv_sig: *const u8, cb_sig: u32, ptypespec: *mut TypeSpec) -> HResult;
    fn SaveToMemory(pb_data: *mut u8, cb_data: u32) -> HResult;
    fn DefineUserString(sz_string: *const u16, cch_string: u32, pstk: *mut UserString) -> HResult;
    fn DeleteToken(tk_obj: Token) -> HResult;
    fn SetMethodProps(md: MethodDef, dw_method_flags: u32, ul_code_rva: u32, dw_impl_flags: u32) -> HResult;
    fn SetTypeDefProps(td: TypeDef, dw_type_def_flags: u32, tk_extends: Token, rtk_implements: *const Token) -> HResult;
    fn SetEventProps(ev: Event, dw_event_flags: u32, tk_event_type: Token, md_add_on: MethodDef, md_remove_on: MethodDef, md_fire: MethodDef, rmd_other_methods: *const MethodDef) -> HResult;
    fn SetPermissionSetProps(tk: Token, dw_action: u32, pv_permission: *const u8, cb_permission: u32, ppm: *mut Permission) -> HResult;
    fn DefinePinvokeMap(tk: Token, dw_mapping_flags: u32, sz_import_name: *const u16, mr_import_dll: ModuleRef) -> HResult;
    fn SetPinvokeMap(tk: Token, dw_mapping_flags: u32, sz_import_name: *const u16, mr_import_dll: ModuleRef) -> HResult;
    fn DeletePinvokeMap(tk: Token) -> HResult;
    fn DefineCustomAttribute(tk_owner: Token, tk_ctor: Token, p_custom_attribute: *const u8, cb_custom_attribute: u32, pcv: *mut CustomAttribute) -> HResult;
    fn SetCustomAttributeValue(pcv: CustomAttribute, p_custom_attribute: *const u8, cb_custom_attribute: u32) -> HResult;
    fn DefineField(td: TypeDef, sz_name: *const u16, dw_field_flags: u32, pv_sig_blob: *const u8, cb_sig_blob: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32, pmd: *mut FieldDef) -> HResult;
    fn DefineProperty(td: TypeDef, sz_property: *const u16, dw_prop_flags: u32, pv_sig: *const u8, cb_sig: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32, md_setter: MethodDef, md_getter: MethodDef, rmd_other_methods: *const MethodDef, pmd_prop: *mut Property) -> HResult;
    fn DefineParam(md: MethodDef, ul_param_seq: u32, sz_name: *const u16, dw_param_flags: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32, ppd: *mut ParamDef) -> HResult;
    fn SetFieldProps(fd: FieldDef, dw_field_flags: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32) -> HResult;
    fn SetPropertyProps(pr: Property, dw_prop_flags: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32, md_setter: MethodDef, md_getter: MethodDef, rmd_other_methods: *const MethodDef) -> HResult;
    fn SetParamProps(pd: ParamDef, sz_name: *const u16, dw_param_flags: u32, dw_c_plus_type_flag: u32, p_value: *const u8, cch_value: u32) -> HResult;
    fn DefineSecurityAttributeSet(tk_obj: Token, r_sec_attrs: *const COR_SECATTR, c_sec_attrs: u32, pul_error_attr: *mut u32) -> HResult;
    fn ApplyEditAndContinue(p_import: Option<InterfaceRef<'_, IUnknown>>) -> HResult;
    fn TranslateSigWithScope(p_assem_import: Option<InterfaceRef<'_, IMetaDataAssemblyImport>>, pb_hash_value: *const u8, cb_hash_value: u32, import: Option<InterfaceRef<'_, IMetaDataImport>>, pb_sig_blob: *const u8, cb_sig_blob: u32, p_assem_emit: Option<InterfaceRef<'_, IMetaDataAssemblyEmit>>, emit: Option<InterfaceRef<'_, IMetaDataEmit>>, pv_translated_sig: *mut u8, cb_translated_sig_max: u32, pcb_translated_sig: *mut u32) -> HResult;
    fn SetMethodImplFlags(md: MethodDef, dw_impl_flags: u32) -> HResult;
    fn SetFieldRVA(fd: FieldDef, ul_rva: u32) -> HResult;
    fn Merge(p_import: Option<InterfaceRef<'_, IMetaDataImport>>, p_host_map_token: Option<InterfaceRef<'_, IMapToken>>, p_handler: Option<InterfaceRef<'_, IUnknown>>) -> HResult;
    fn MergeEnd() -> HResult;
}

com_interface! {
    /// Writes metadata: what generics added.
    interface IMetaDataEmit2(IMetaDataEmit2Vtbl, IMetaDataEmit2Impl): IMetaDataEmit(IMetaDataEmitImpl)
        = "F5DD9950-F693-42E6-830E-7B833E8146A9", default E_NOTIMPL;
    fn DefineMethodSpec(tk_parent: Token, pv_sig_blob: *const u8, cb_sig_blob: u32, pmi: *mut MethodSpec) -> HResult;
    fn GetDeltaSaveSize(f_save: u32, pdw_save_size: *mut u32) -> HResult;
    fn SaveDelta(sz_file: *const u16, dw_save_flags: u32) -> HResult;
    fn SaveDeltaToStream(p_i_stream: *mut c_void, dw_save_flags: u32) -> HResult;
    fn SaveDeltaToMemory(pb_data: *mut u8, cb_data: u32) -> HResult;
    fn DefineGenericParam(tk: Token, ul_param_seq: u32, dw_param_flags: u32, szname: *const u16, reserved: u32, rtk_constraints: *const Token, pgp: *mut GenericParam) -> HResult;
    fn SetGenericParamProps(gp: GenericParam, dw_param_flags: u32, sz_name: *const u16, reserved: u32, rtk_constraints: *const Token) -> HResult;
    fn ResetENCLog() -> HResult;
}

com_interface! {
    /// Reads metadata.
    interface IMetaDataImport(IMetaDataImportVtbl, IMetaDataImportImpl): IUnknown(ComClass)
        = "7DAC8207-D3AE-4C75-9B67-92801A497D44", default E_NOTIMPL;
    fn CloseEnum(h_enum: HCORENUM) -> ();
    fn CountEnum(h_enum: HCORENUM, pul_count: *mut u32) -> HResult;
    fn ResetEnum(h_enum: HCORENUM, ul_pos: u32) -> HResult;
    fn EnumTypeDefs(ph_enum: *mut HCORENUM, r_type_defs: *mut TypeDef, c_max: u32, pc_type_defs: *mut u32) -> HResult;
    fn EnumInterfaceImpls(ph_enum: *mut HCORENUM, td: TypeDef, r_impls: *mut InterfaceImpl, c_max: u32, pc_impls: *mut u32) -> HResult;
    fn EnumTypeRefs(ph_enum: *mut HCORENUM, r_type_refs: *mut TypeRef, c_max: u32, pc_type_refs: *mut u32) -> HResult;
    fn FindTypeDefByName(sz_type_def: *const u16, tk_enclosing_class: Token, ptd: *mut TypeDef) -> HResult;
    fn GetScopeProps(sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, pmvid: *mut Guid) -> HResult;
    fn GetModuleFromScope(pmd: *mut Module) -> HResult;
    fn GetTypeDefProps(td: TypeDef, sz_type_def: *mut u16, cch_type_def: u32, pch_type_def: *mut u32, pdw_type_def_flags: *mut u32, ptk_extends: *mut Token) -> HResult;
    fn GetInterfaceImplProps(ii_impl: InterfaceImpl, p_class: *mut TypeDef, ptk_iface: *mut Token) -> HResult;
    fn GetTypeRefProps(tr: TypeRef, ptk_resolution_scope: *mut Token, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32) -> HResult;
    fn ResolveTypeRef(tr: TypeRef, riid: *const Guid, pp_i_scope: *mut *mut c_void, ptd: *mut TypeDef) -> HResult;
    fn EnumMembers(ph_enum: *mut HCORENUM, cl: TypeDef, r_members: *mut Token, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumMembersWithName(ph_enum: *mut HCORENUM, cl: TypeDef, sz_name: *const u16, r_members: *mut Token, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumMethods(ph_enum: *mut HCORENUM, cl: TypeDef, r_methods: *mut MethodDef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumMethodsWithName(ph_enum: *mut HCORENUM, cl: TypeDef, sz_name: *const u16, r_methods: *mut MethodDef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumFields(ph_enum: *mut HCORENUM, cl: TypeDef, r_fields: *mut FieldDef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumFieldsWithName(ph_enum: *mut HCORENUM, cl: TypeDef, sz_name: *const u16, r_fields: *mut FieldDef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumParams(ph_enum: *mut HCORENUM, mb: MethodDef, r_params: *mut ParamDef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumMemberRefs(ph_enum: *mut HCORENUM, tk_parent: Token, r_member_refs: *mut MemberRef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumMethodImpls(ph_enum: *mut HCORENUM, td: TypeDef, r_method_body: *mut Token, r_method_decl: *mut Token, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumPermissionSets(ph_enum: *mut HCORENUM, tk: Token, dw_actions: u32, r_permission: *mut Permission, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn FindMember(td: TypeDef, sz_name: *const u16, pv_sig_blob: *const u8, cb_sig_blob: u32, pmb: *mut Token) -> HResult;
    fn FindMethod(td: TypeDef, sz_name: *const u16, pv_sig_blob: *const u8, cb_sig_blob: u32, pmb: *mut MethodDef) -> HResult;
    fn FindField(td: TypeDef, sz_name: *const u16, pv_sig_blob: *const u8, cb_sig_blob: u32, pmb: *mut FieldDef) -> HResult;
    fn FindMemberRef(td: TypeRef, sz_name: *const u16, pv_sig_blob: *const u8, cb_sig_blob: u32, pmr: *mut MemberRef) -> HResult;
    fn GetMethodProps(mb: MethodDef, p_class: *mut TypeDef, sz_method: *mut u16, cch_method: u32, pch_method: *mut u32, pdw_attr: *mut u32, ppv_sig_blob: *mut *const u8, pcb_sig_blob: *mut u32, pul_code_rva: *mut u32, pdw_impl_flags: *mut u32) -> HResult;
    fn GetMemberRefProps(mr: MemberRef, ptk: *mut Token, sz_member: *mut u16, cch_member: u32, pch_member: *mut u32, ppv_sig_blob: *mut *const u8, pb_sig: *mut u32) -> HResult;
    fn EnumProperties(ph_enum: *mut HCORENUM, td: TypeDef, r_properties: *mut Property, c_max: u32, pc_properties: *mut u32) -> HResult;
    fn EnumEvents(ph_enum: *mut HCORENUM, td: TypeDef, r_events: *mut Event, c_max: u32, pc_events: *mut u32) -> HResult;
    fn GetEventProps(ev: Event, p_class: *mut TypeDef, sz_event: *mut u16, cch_event: u32, pch_event: *mut u32, pdw_event_flags: *mut u32, ptk_event_type: *mut Token, pmd_add_on: *mut MethodDef, pmd_remove_on: *mut MethodDef, pmd_fire: *mut MethodDef, rmd_other_method: *mut MethodDef, c_max: u32, pc_other_method: *mut u32) -> HResult;
    fn EnumMethodSemantics(ph_enum: *mut HCORENUM, mb: MethodDef, r_event_prop: *mut Token, c_max: u32, pc_event_prop: *mut u32) -> HResult;
    fn GetMethodSemantics(mb: MethodDef, tk_event_prop: Token, pdw_semantics_flags: *mut u32) -> HResult;
    fn GetClassLayout(td: TypeDef, pdw_pack_size: *mut u32, r_field_offset: *mut COR_FIELD_OFFSET, c_max: u32, pc_field_offset: *mut u32, pul_class_size: *mut u32) -> HResult;
    fn GetFieldMarshal(tk: Token, ppv_native_type: *mut *const u8, pcb_native_type: *mut u32) -> HResult;
    fn GetRVA(tk: Token, pul_code_rva: *mut u32, pdw_impl_flags: *mut u32) -> HResult;
    fn GetPermissionSetProps(pm: Permission, pdw_action: *mut u32, ppv_permission: *mut *const u8, pcb_permission: *mut u32) -> HResult;
    fn GetSigFromToken(md_sig: Signature, ppv_sig: *mut *const u8, pcb_sig: *mut u32) -> HResult;
    fn GetModuleRefProps(mur: ModuleRef, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32) -> HResult;
    fn EnumModuleRefs(ph_enum: *mut HCORENUM, r_module_refs: *mut ModuleRef, cmax: u32, pc_module_refs: *mut u32) -> HResult;
    fn GetTypeSpecFromToken(typespec: TypeSpec, ppv_sig: *mut *const u8, pcb_sig: *mut u32) -> HResult;
    fn GetNameFromToken(tk: Token, psz_utf8_name_ptr: *mut *const c_char) -> HResult;
    fn EnumUnresolvedMethods(ph_enum: *mut HCORENUM, r_methods: *mut Token, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn GetUserString(stk: UserString, sz_string: *mut u16, cch_string: u32, pch_string: *mut u32) -> HResult;
    fn GetPinvokeMap(tk: Token, pdw_mapping_flags: *mut u32, sz_import_name: *mut u16, cch_import_name: u32, pch_import_name: *mut u32, pmr_import_dll: *mut ModuleRef) -> HResult;
    fn EnumSignatures(ph_enum: *mut HCORENUM, r_signatures: *mut Signature, cmax: u32, pc_signatures: *mut u32) -> HResult;
    fn EnumTypeSpecs(ph_enum: *mut HCORENUM, r_type_specs: *mut TypeSpec, cmax: u32, pc_type_specs: *mut u32) -> HResult;
    fn EnumUserStrings(ph_enum: *mut HCORENUM, r_strings: *mut UserString, cmax: u32, pc_strings: *mut u32) -> HResult;
    fn GetParamForMethodIndex(md: MethodDef, ul_param_seq: u32, ppd: *mut ParamDef) -> HResult;
    fn EnumCustomAttributes(ph_enum: *mut HCORENUM, tk: Token, tk_type: Token, r_custom_attributes: *mut CustomAttribute, c_max: u32, pc_custom_attributes: *mut u32) -> HResult;
    fn GetCustomAttributeProps(cv: CustomAttribute, ptk_obj: *mut Token, ptk_type: *mut Token, pp_blob: *mut *const u8, pcb_size: *mut u32) -> HResult;
    fn FindTypeRef(tk_resolution_scope: Token, sz_name: *const u16, ptr: *mut TypeRef) -> HResult;
    fn GetMemberProps(mb: Token, p_class: *mut TypeDef, sz_member: *mut u16, cch_member: u32, pch_member: *mut u32, pdw_attr: *mut u32, ppv_sig_blob: *mut *const u8, pcb_sig_blob: *mut u32, pul_code_rva: *mut u32, pdw_impl_flags: *mut u32, pdw_c_plus_type_flag: *mut u32, pp_value: *mut *const u8, pcch_value: *mut u32) -> HResult;
    fn GetFieldProps(mb: FieldDef, p_class: *mut TypeDef, sz_field: *mut u16, cch_field: u32, pch_field: *mut u32, pdw_attr: *mut u32, ppv_sig_blob: *mut *const u8, pcb_sig_blob: *mut u32, pdw_c_plus_type_flag: *mut u32, pp_value: *mut *const u8, pcch_value: *mut u32) -> HResult;
    fn GetPropertyProps(prop: Property, p_class: *mut TypeDef, sz_property: *mut u16, cch_property: u32, pch_property: *mut u32, pdw_prop_flags: *mut u32, ppv_sig: *mut *const u8, pb_sig: *mut u32, pdw_c_plus_type_flag: *mut u32, pp_default_value: *mut *const u8, pcch_default_value: *mut u32, pmd_setter: *mut MethodDef, pmd_getter: *mut MethodDef, rmd_other_method: *mut MethodDef, c_max: u32, pc_other_method: *mut u32) -> HResult;
    fn GetParamProps(tk: ParamDef, pmd: *mut MethodDef, pul_sequence: *mut u32, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, pdw_attr: *mut u32, pdw_c_plus_type_flag: *mut u32, pp_value: *mut *const u8, pcch_value: *mut u32) -> HResult;
    fn GetCustomAttributeByName(tk_obj: Token, sz_name: *const u16, pp_data: *mut *const u8, pcb_data: *mut u32) -> HResult;
    fn IsValidToken(tk: Token) -> i32;
    fn GetNestedClassProps(td_nested_class: TypeDef, ptd_enclosing_class: *mut TypeDef) -> HResult;
    fn GetNativeCallConvFromSig(pv_sig: *const u8, cb_sig: u32, p_call_conv: *mut u32) -> HResult;
    fn IsGlobal(pd: Token, pb_global: *mut i32) -> HResult;
}

com_interface! {
    /// Reads metadata: what generics added.
    interface IMetaDataImport2(IMetaDataImport2Vtbl, IMetaDataImport2Impl): IMetaDataImport(IMetaDataImportImpl)
        = "FCE5EFA0-8BBA-4F8E-A036-8F2022B08466", default E_NOTIMPL;
    fn EnumGenericParams(ph_enum: *mut HCORENUM, tk: Token, r_generic_params: *mut GenericParam, c_max: u32, pc_generic_params: *mut u32) -> HResult;
    fn GetGenericParamProps(gp: GenericParam, pul_param_seq: *mut u32, pdw_param_flags: *mut u32, pt_owner: *mut Token, reserved: *mut u32, wzname: *mut u16, cch_name: u32, pch_name: *mut u32) -> HResult;
    fn GetMethodSpecProps(mi: MethodSpec, tk_parent: *mut Token, ppv_sig_blob: *mut *const u8, pcb_sig_blob: *mut u32) -> HResult;
    fn EnumGenericParamConstraints(ph_enum: *mut HCORENUM, tk: GenericParam, r_generic_param_constraints: *mut GenericParamConstraint, c_max: u32, pc_generic_param_constraints: *mut u32) -> HResult;
    fn GetGenericParamConstraintProps(gpc: GenericParamConstraint, pt_generic_param: *mut GenericParam, ptk_constraint_type: *mut Token) -> HResult;
    fn GetPEKind(pdw_pe_kind: *mut u32, pdw_m_achine: *mut u32) -> HResult;
    fn GetVersionString(pwz_buf: *mut u16, cc_buf_size: u32, pcc_buf_size: *mut u32) -> HResult;
    fn EnumMethodSpecs(ph_enum: *mut HCORENUM, tk: Token, r_method_specs: *mut MethodSpec, c_max: u32, pc_method_specs: *mut u32) -> HResult;
}

com_interface! {
    /// Writes the manifest.
    interface IMetaDataAssemblyEmit(IMetaDataAssemblyEmitVtbl, IMetaDataAssemblyEmitImpl): IUnknown(ComClass)
        = "211EF15B-5317-4438-B196-DEC87B887693", default E_NOTIMPL;
    fn DefineAssembly(pb_public_key: *const u8, cb_public_key: u32, ul_hash_alg_id: u32, sz_name: *const u16, p_meta_data: *const ASSEMBLYMETADATA, dw_assembly_flags: u32, pma: *mut Assembly) -> HResult;
    fn DefineAssemblyRef(pb_public_key_or_token: *const u8, cb_public_key_or_token: u32, sz_name: *const u16, p_meta_data: *const ASSEMBLYMETADATA, pb_hash_value: *const u8, cb_hash_value: u32, dw_assembly_ref_flags: u32, pmdar: *mut AssemblyRef) -> HResult;
    fn DefineFile(sz_name: *const u16, pb_hash_value: *const u8, cb_hash_value: u32, dw_file_flags: u32, pmdf: *mut File) -> HResult;
    fn DefineExportedType(sz_name: *const u16, tk_implementation: Token, tk_type_def: TypeDef, dw_exported_type_flags: u32, pmdct: *mut ExportedType) -> HResult;
    fn DefineManifestResource(sz_name: *const u16, tk_implementation: Token, dw_offset: u32, dw_resource_flags: u32, pmdmr: *mut ManifestResource) -> HResult;
    fn SetAssemblyProps(pma: Assembly, pb_public_key: *const u8, cb_public_key: u32, ul_hash_alg_id: u32, sz_name: *const u16, p_meta_data: *const ASSEMBLYMETADATA, dw_assembly_flags: u32) -> HResult;
    fn SetAssemblyRefProps(ar: AssemblyRef, pb_public_key_or_token: *const u8, cb_public_key_or_token: u32, sz_name: *const u16, p_meta_data: *const ASSEMBLYMETADATA, pb_hash_value: *const u8, cb_hash_value: u32, dw_assembly_ref_flags: u32) -> HResult;
    fn SetFileProps(file: File, pb_hash_value: *const u8, cb_hash_value: u32, dw_file_flags: u32) -> HResult;
    fn SetExportedTypeProps(ct: ExportedType, tk_implementation: Token, tk_type_def: TypeDef, dw_exported_type_flags: u32) -> HResult;
    fn SetManifestResourceProps(mr: ManifestResource, tk_implementation: Token, dw_offset: u32, dw_resource_flags: u32) -> HResult;
}

com_interface! {
    /// Reads the manifest.
    interface IMetaDataAssemblyImport(IMetaDataAssemblyImportVtbl, IMetaDataAssemblyImportImpl): IUnknown(ComClass)
        = "EE62470B-E94B-424E-9B7C-2F00C9249F93", default E_NOTIMPL;
    fn GetAssemblyProps(mda: Assembly, ppb_public_key: *mut *const u8, pcb_public_key: *mut u32, pul_hash_alg_id: *mut u32, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, p_meta_data: *mut ASSEMBLYMETADATA, pdw_assembly_flags: *mut u32) -> HResult;
    fn GetAssemblyRefProps(mdar: AssemblyRef, ppb_public_key_or_token: *mut *const u8, pcb_public_key_or_token: *mut u32, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, p_meta_data: *mut ASSEMBLYMETADATA, ppb_hash_value: *mut *const u8, pcb_hash_value: *mut u32, pdw_assembly_ref_flags: *mut u32) -> HResult;
    fn GetFileProps(mdf: File, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, ppb_hash_value: *mut *const u8, pcb_hash_value: *mut u32, pdw_file_flags: *mut u32) -> HResult;
    fn GetExportedTypeProps(mdct: ExportedType, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, ptk_implementation: *mut Token, ptk_type_def: *mut TypeDef, pdw_exported_type_flags: *mut u32) -> HResult;
    fn GetManifestResourceProps(mdmr: ManifestResource, sz_name: *mut u16, cch_name: u32, pch_name: *mut u32, ptk_implementation: *mut Token, pdw_offset: *mut u32, pdw_resource_flags: *mut u32) -> HResult;
    fn EnumAssemblyRefs(ph_enum: *mut HCORENUM, r_assembly_refs: *mut AssemblyRef, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumFiles(ph_enum: *mut HCORENUM, r_files: *mut File, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumExportedTypes(ph_enum: *mut HCORENUM, r_exported_types: *mut ExportedType, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn EnumManifestResources(ph_enum: *mut HCORENUM, r_manifest_resources: *mut ManifestResource, c_max: u32, pc_tokens: *mut u32) -> HResult;
    fn GetAssemblyFromScope(ptk_assembly: *mut Assembly) -> HResult;
    fn FindExportedTypeByName(sz_name: *const u16, mdt_exported_type: Token, ptk_exported_type: *mut ExportedType) -> HResult;
    fn FindManifestResourceByName(sz_name: *const u16, ptk_manifest_resource: *mut ManifestResource) -> HResult;
    fn CloseEnum(h_enum: HCORENUM) -> ();
    fn FindAssembliesByName(sz_app_base: *const u16, sz_private_bin: *const u16, sz_assembly_name: *const u16, pp_i_unk: *mut *mut c_void, c_max: u32, pc_assemblies: *mut u32) -> HResult;
}

com_interface! {
    /// Reads the tables and heaps as they lie in memory.
    interface IMetaDataTables(IMetaDataTablesVtbl, IMetaDataTablesImpl): IUnknown(ComClass)
        = "D8F579AB-402D-4B8E-82D9-5D63B1065C68", default E_NOTIMPL;
    fn GetStringHeapSize(pcb_strings: *mut u32) -> HResult;
    fn GetBlobHeapSize(pcb_blobs: *mut u32) -> HResult;
    fn GetGuidHeapSize(pcb_guids: *mut u32) -> HResult;
    fn GetUserStringHeapSize(pcb_blobs: *mut u32) -> HResult;
    fn GetNumTables(pc_tables: *mut u32) -> HResult;
    fn GetTableIndex(token: u32, pix_tbl: *mut u32) -> HResult;
    fn GetTableInfo(ix_tbl: u32, pcb_row: *mut u32, pc_rows: *mut u32, pc_cols: *mut u32, pi_key: *mut u32, pp_name: *mut *const c_char) -> HResult;
    fn GetColumnInfo(ix_tbl: u32, ix_col: u32, po_col: *mut u32, pcb_col: *mut u32, p_type: *mut u32, pp_name: *mut *const c_char) -> HResult;
    fn GetCodedTokenInfo(ix_cd_tkn: u32, pc_tokens: *mut u32, pp_tokens: *mut *mut u32, pp_name: *mut *const c_char) -> HResult;
    fn GetRow(ix_tbl: u32, rid: u32, pp_row: *mut *mut u8) -> HResult;
    fn GetColumn(ix_tbl: u32, ix_col: u32, rid: u32, p_val: *mut u32) -> HResult;
    fn GetString(ix_string: u32, pp_string: *mut *const c_char) -> HResult;
    fn GetBlob(ix_blob: u32, pcb_data: *mut u32, pp_data: *mut *const u8) -> HResult;
    fn GetGuid(ix_guid: u32, pp_guid: *mut *const Guid) -> HResult;
    fn GetUserString(ix_user_string: u32, pcb_data: *mut u32, pp_data: *mut *const u8) -> HResult;
    fn GetNextString(ix_string: u32, p_next: *mut u32) -> HResult;
    fn GetNextBlob(ix_blob: u32, p_next: *mut u32) -> HResult;
    fn GetNextGuid(ix_guid: u32, p_next: *mut u32) -> HResult;
    fn GetNextUserString(ix_user_string: u32, p_next: *mut u32) -> HResult;
}

com_interface! {
    /// Reads the streams as they lie in memory.
    interface IMetaDataTables2(IMetaDataTables2Vtbl, IMetaDataTables2Impl): IMetaDataTables(IMetaDataTablesImpl)
        = "BADB5F70-58DA-43A9-A1C6-D74819F19B15", default E_NOTIMPL;
    fn GetMetaDataStorage(ppv_md: *mut *const u8, pcb_md: *mut u32) -> HResult;
    fn GetMetaDataStreamInfo(ix: u32, ppch_name: *mut *const c_char, ppv: *mut *const u8, pcb: *mut u32) -> HResult;
}

com_interface! {
    /// Marks tokens, for a scope to be cut down to what is marked.
    interface IMetaDataFilter(IMetaDataFilterVtbl, IMetaDataFilterImpl): IUnknown(ComClass)
        = "D0E80DD1-12D4-11D3-B39D-00C04FF81795", default E_NOTIMPL;
    fn UnmarkAll() -> HResult;
    fn MarkToken(tk: Token) -> HResult;
    fn IsTokenMarked(tk: Token, p_is_marked: *mut i32) -> HResult;
}

com_interface! {
    /// Says how the image behind a scope is mapped.
    interface IMetaDataInfo(IMetaDataInfoVtbl, IMetaDataInfoImpl): IUnknown(ComClass)
        = "7998EA64-7F95-48B8-86FC-17CAF48BF5CB", default E_NOTIMPL;
    fn GetFileMapping(ppv_data: *mut *const u8, pcb_data: *mut u64, pdw_mapping_type: *mut u32) -> HResult;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    const SLOT: usize = size_of::<usize>();

    /// Slot counts of `cor.h`, with those of the bases.
    #[test]
    fn every_vtable_has_its_slots() {
        assert_eq!(size_of::<IMetaDataErrorVtbl>(), (3 + 1) * SLOT);
        assert_eq!(size_of::<IMapTokenVtbl>(), (3 + 1) * SLOT);
        assert_eq!(size_of::<IMetaDataDispenserVtbl>(), (3 + 3) * SLOT);
        assert_eq!(size_of::<IMetaDataDispenserExVtbl>(), (3 + 3 + 6) * SLOT);
        assert_eq!(size_of::<IMetaDataEmitVtbl>(), (3 + 49) * SLOT);
        assert_eq!(size_of::<IMetaDataEmit2Vtbl>(), (3 + 49 + 8) * SLOT);
        assert_eq!(size_of::<IMetaDataImportVtbl>(), (3 + 62) * SLOT);
        assert_eq!(size_of::<IMetaDataImport2Vtbl>(), (3 + 62 + 8) * SLOT);
        assert_eq!(size_of::<IMetaDataAssemblyEmitVtbl>(), (3 + 10) * SLOT);
        assert_eq!(size_of::<IMetaDataAssemblyImportVtbl>(), (3 + 14) * SLOT);
        assert_eq!(size_of::<IMetaDataTablesVtbl>(), (3 + 19) * SLOT);
        assert_eq!(size_of::<IMetaDataTables2Vtbl>(), (3 + 19 + 2) * SLOT);
        assert_eq!(size_of::<IMetaDataFilterVtbl>(), (3 + 3) * SLOT);
        assert_eq!(size_of::<IMetaDataInfoVtbl>(), (3 + 1) * SLOT);
    }

    /// Places counted by hand in `cor.h`, first, middle and last of the long interfaces.
    #[test]
    fn slots_stand_where_the_header_has_them() {
        assert_eq!(offset_of!(IMetaDataImportVtbl, CloseEnum), 3 * SLOT);
        assert_eq!(offset_of!(IMetaDataImportVtbl, GetTypeDefProps), 12 * SLOT);
        assert_eq!(offset_of!(IMetaDataImportVtbl, GetMethodProps), 30 * SLOT);
        assert_eq!(offset_of!(IMetaDataImportVtbl, GetParamProps), 59 * SLOT);
        assert_eq!(offset_of!(IMetaDataImportVtbl, IsGlobal), 64 * SLOT);
        assert_eq!(offset_of!(IMetaDataImport2Vtbl, EnumGenericParams), 65 * SLOT);
        assert_eq!(offset_of!(IMetaDataImport2Vtbl, EnumMethodSpecs), 72 * SLOT);
        assert_eq!(offset_of!(IMetaDataEmitVtbl, SetModuleProps), 3 * SLOT);
        assert_eq!(offset_of!(IMetaDataEmitVtbl, DefineUserString), 28 * SLOT);
        assert_eq!(offset_of!(IMetaDataEmitVtbl, MergeEnd), 51 * SLOT);
        assert_eq!(offset_of!(IMetaDataEmit2Vtbl, DefineMethodSpec), 52 * SLOT);
        assert_eq!(offset_of!(IMetaDataAssemblyImportVtbl, FindAssembliesByName), 16 * SLOT);
    }

    #[test]
    fn structures_are_as_wide_as_in_c() {
        if cfg!(target_pointer_width = "64") {
            assert_eq!(size_of::<COR_SECATTR>(), 24);
            assert_eq!(size_of::<VARIANT>(), 24);
            assert_eq!(size_of::<ASSEMBLYMETADATA>(), 56);
        } else {
            assert_eq!(size_of::<COR_SECATTR>(), 12);
            assert_eq!(size_of::<VARIANT>(), 16);
            assert_eq!(size_of::<ASSEMBLYMETADATA>(), 32);
        }
        assert_eq!(size_of::<COR_FIELD_OFFSET>(), 8);
    }
}
