//! Tables, heaps and streams as they lie in memory.

use com::{Guid, Interface};

use super::Metadata;
use super::abi::{IMetaDataTables, IMetaDataTables2};
use super::token::Token;
use crate::info::call::{blob, check, raw};
use crate::info::error::{Error, Result};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// Width of a row in bytes.
    pub row_size: u32,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// The column that rows are sorted by; `None` if they are not.
    pub key: Option<u32>,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// Where it is in the row, in bytes.
    pub offset: u32,
    /// Its width in bytes.
    pub size: u32,
    /// What it holds: up to 63 a row of that table, up to 95 a coded token, above a number or a
    /// heap index.
    pub kind: u32,
}

/// A kind of coded token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedTokenInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// The tables that it may point into, as nil tokens, by their code.
    pub tables: &'a [Token],
}

/// A stream of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataStream<'a> {
    /// Name, such as `#~` or `#Strings`.
    pub name: &'a str,
    /// Content.
    pub data: &'a [u8],
}

/// Reads tables and heaps.
#[derive(Clone, Debug)]
pub struct MetadataTables {
    tables: IMetaDataTables,
}

impl Metadata {
    /// The tables of the same scope.
    ///
    /// # Errors
    /// `E_NOINTERFACE` if the scope has none.
    pub fn tables(&self) -> Result<MetadataTables> {
        self.raw()
            .cast::<IMetaDataTables>()
            .map(|tables| MetadataTables { tables })
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataTables)", hresult })
    }
}

impl MetadataTables {
    /// The interface below.
    #[must_use]
    pub const fn raw(&self) -> &IMetaDataTables {
        &self.tables
    }

    /// A text that the runtime points to; `None` if it is null or not UTF-8.
    ///
    /// # Safety
    /// `text` is null or zero-terminated, in memory of this scope or constant.
    unsafe fn text(&self, text: *const core::ffi::c_char) -> Option<&str> {
        if text.is_null() {
            return None;
        }
        // SAFETY: not null here; the rest is this function's contract.
        unsafe { core::ffi::CStr::from_ptr(text) }.to_str().ok()
    }

    /// Size of the string heap in bytes (`GetStringHeapSize`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn string_heap_size(&self) -> Result<u32> {
        let mut size = 0;
        check("GetStringHeapSize", raw!(self.tables, GetStringHeapSize(&mut size)))?;
        Ok(size)
    }

    /// Size of the blob heap in bytes (`GetBlobHeapSize`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn blob_heap_size(&self) -> Result<u32> {
        let mut size = 0;
        check("GetBlobHeapSize", raw!(self.tables, GetBlobHeapSize(&mut size)))?;
        Ok(size)
    }

    /// Size of the GUID heap in bytes (`GetGuidHeapSize`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn guid_heap_size(&self) -> Result<u32> {
        let mut size = 0;
        check("GetGuidHeapSize", raw!(self.tables, GetGuidHeapSize(&mut size)))?;
        Ok(size)
    }

    /// Size of the heap of literal strings in bytes (`GetUserStringHeapSize`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn user_string_heap_size(&self) -> Result<u32> {
        let mut size = 0;
        check("GetUserStringHeapSize", raw!(self.tables, GetUserStringHeapSize(&mut size)))?;
        Ok(size)
    }

    /// Number of tables, empty ones included (`GetNumTables`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn table_count(&self) -> Result<u32> {
        let mut count = 0;
        check("GetNumTables", raw!(self.tables, GetNumTables(&mut count)))?;
        Ok(count)
    }

    /// The table that a token points into (`GetTableIndex`).
    ///
    /// # Errors
    /// The runtime refuses.
    pub fn table_of(&self, token: Token) -> Result<u32> {
        let mut table = 0;
        check("GetTableIndex", raw!(self.tables, GetTableIndex(token.0, &mut table)))?;
        Ok(table)
    }

    /// Name and shape of a table (`GetTableInfo`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if there is no such table.
    pub fn table(&self, table: u32) -> Result<TableInfo<'_>> {
        let (mut row_size, mut rows, mut columns, mut key) = (0, 0, 0, 0);
        let mut name = core::ptr::null();
        check(
            "GetTableInfo",
            raw!(
                self.tables,
                GetTableInfo(table, &mut row_size, &mut rows, &mut columns, &mut key, &mut name)
            ),
        )?;
        // SAFETY: the runtime answers with a constant text.
        let name = unsafe { self.text(name) }.unwrap_or_default();
        // All ones, in the byte that the runtime keeps it in or in the whole number, stand for
        // "none".
        Ok(TableInfo { name, row_size, rows, columns, key: Some(key).filter(|key| *key < 0xff) })
    }

    /// Name and place of a column (`GetColumnInfo`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if there is no such column.
    pub fn column(&self, table: u32, column: u32) -> Result<ColumnInfo<'_>> {
        let (mut offset, mut size, mut kind, mut name) = (0, 0, 0, core::ptr::null());
        check(
            "GetColumnInfo",
            raw!(
                self.tables,
                GetColumnInfo(table, column, &mut offset, &mut size, &mut kind, &mut name)
            ),
        )?;
        // SAFETY: the runtime answers with a constant text.
        let name = unsafe { self.text(name) }.unwrap_or_default();
        Ok(ColumnInfo { name, offset, size, kind })
    }

    /// The tables that a kind of coded token may point into (`GetCodedTokenInfo`).
    ///
    /// # Errors
    /// `E_INVALIDARG` if there is no such kind.
    pub fn coded_token(&self, kind: u32) -> Result<CodedTokenInfo<'_>> {
        let (mut count, mut tables, mut name) = (0, core::ptr::null_mut(), core::ptr::null());
        check(
            "GetCodedTokenInfo",
            raw!(self.tables, GetCodedTokenInfo(kind, &mut count, &mut tables, &mut name)),
        )?;
        let tables: &[Token] = if tables.is_null() {
            &[]
        } else {
            // SAFETY: the runtime answers with a constant list of `count` numbers; a token is one
            // number.
            unsafe { core::slice::from_raw_parts(tables.cast(), count as usize) }
        };
        // SAFETY: the runtime answers with a constant text.
        let name = unsafe { self.text(name) }.unwrap_or_default();
        Ok(CodedTokenInfo { name, tables })
    }

    /// The bytes of a row, from 1 (`GetRow`).
    ///
    /// # Errors
    /// `E_INVALIDARG` or `CLDB_E_INDEX_NOTFOUND` if there is no such row.
    pub fn row(&self, table: u32, row: u32) -> Result<&[u8]> {
        let size = self.table(table)?.row_size;
        let mut start = core::ptr::null_mut();
        check("GetRow", raw!(self.tables, GetRow(table, row, &mut start)))?;
        // SAFETY: the runtime answers with a row, which is as wide as the table says.
        Ok(unsafe { blob(start.cast_const(), size) })
    }

    /// The value of one column of a row, from 1 (`GetColumn`).
    ///
    /// # Errors
    /// `E_INVALIDARG` or `CLDB_E_INDEX_NOTFOUND` if there is no such row or column.
    pub fn value(&self, table: u32, column: u32, row: u32) -> Result<u32> {
        let mut value = 0;
        check("GetColumn", raw!(self.tables, GetColumn(table, column, row, &mut value)))?;
        Ok(value)
    }

    /// A text of the string heap (`GetString`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` if nothing is there.
    pub fn string(&self, index: u32) -> Result<&str> {
        let mut start = core::ptr::null();
        check("GetString", raw!(self.tables, GetString(index, &mut start)))?;
        // SAFETY: the runtime answers with a zero-terminated text in the heap.
        Ok(unsafe { self.text(start) }.unwrap_or_default())
    }

    /// A blob of the blob heap (`GetBlob`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` if nothing is there.
    pub fn blob(&self, index: u32) -> Result<&[u8]> {
        let (mut length, mut start) = (0, core::ptr::null());
        check("GetBlob", raw!(self.tables, GetBlob(index, &mut length, &mut start)))?;
        // SAFETY: the runtime answers with a blob of that length in the heap.
        Ok(unsafe { blob(start, length) })
    }

    /// A GUID of the GUID heap (`GetGuid`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` if nothing is there.
    pub fn guid(&self, index: u32) -> Result<Guid> {
        let mut start = core::ptr::null();
        check("GetGuid", raw!(self.tables, GetGuid(index, &mut start)))?;
        if start.is_null() {
            return Err(Error::Nothing { call: "GetGuid" });
        }
        // SAFETY: the runtime answers with 16 bytes in the heap, which may stand anywhere.
        Ok(unsafe { start.read_unaligned() })
    }

    /// The bytes of a literal string: UTF-16, then one byte of flags (`GetUserString`).
    ///
    /// # Errors
    /// `CLDB_E_INDEX_NOTFOUND` if nothing is there.
    pub fn user_string(&self, index: u32) -> Result<&[u8]> {
        let (mut length, mut start) = (0, core::ptr::null());
        check("GetUserString", raw!(self.tables, GetUserString(index, &mut length, &mut start)))?;
        // SAFETY: the runtime answers with a blob of that length in the heap.
        Ok(unsafe { blob(start, length) })
    }

    /// The index behind a text of the string heap (`GetNextString`); `None` at the end.
    ///
    /// # Errors
    /// The runtime refuses; not every runtime has it (`E_NOTIMPL`).
    pub fn next_string(&self, index: u32) -> Result<Option<u32>> {
        let mut next = 0;
        let more = crate::info::call::check_s_ok(
            "GetNextString",
            raw!(self.tables, GetNextString(index, &mut next)),
        )?;
        Ok(more.then_some(next))
    }

    /// The index behind a blob (`GetNextBlob`); `None` at the end.
    ///
    /// # Errors
    /// The runtime refuses; not every runtime has it (`E_NOTIMPL`).
    pub fn next_blob(&self, index: u32) -> Result<Option<u32>> {
        let mut next = 0;
        let more = crate::info::call::check_s_ok(
            "GetNextBlob",
            raw!(self.tables, GetNextBlob(index, &mut next)),
        )?;
        Ok(more.then_some(next))
    }

    /// The index behind a GUID (`GetNextGuid`); `None` at the end.
    ///
    /// # Errors
    /// The runtime refuses; not every runtime has it (`E_NOTIMPL`).
    pub fn next_guid(&self, index: u32) -> Result<Option<u32>> {
        let mut next = 0;
        let more = crate::info::call::check_s_ok(
            "GetNextGuid",
            raw!(self.tables, GetNextGuid(index, &mut next)),
        )?;
        Ok(more.then_some(next))
    }

    /// The index behind a literal string (`GetNextUserString`); `None` at the end.
    ///
    /// # Errors
    /// The runtime refuses; not every runtime has it (`E_NOTIMPL`).
    pub fn next_user_string(&self, index: u32) -> Result<Option<u32>> {
        let mut next = 0;
        let more = crate::info::call::check_s_ok(
            "GetNextUserString",
            raw!(self.tables, GetNextUserString(index, &mut next)),
        )?;
        Ok(more.then_some(next))
    }

    fn tables2(&self) -> Result<IMetaDataTables2> {
        self.tables
            .cast::<IMetaDataTables2>()
            .map_err(|hresult| Error::Hr { call: "QueryInterface(IMetaDataTables2)", hresult })
    }

    /// The whole metadata as it lies in memory (`GetMetaDataStorage`): only of scopes that cannot
    /// be written.
    ///
    /// # Errors
    /// The scope is writable.
    pub fn storage(&self) -> Result<&[u8]> {
        let (mut start, mut length) = (core::ptr::null(), 0);
        check(
            "GetMetaDataStorage",
            raw!(self.tables2()?, GetMetaDataStorage(&mut start, &mut length)),
        )?;
        // SAFETY: the runtime answers with `length` bytes, which stay as long as the scope.
        Ok(unsafe { blob(start, length) })
    }

    /// One stream, from 0 (`GetMetaDataStreamInfo`); `None` behind the last.
    ///
    /// # Errors
    /// The scope is writable.
    pub fn stream(&self, index: u32) -> Result<Option<MetadataStream<'_>>> {
        let (mut name, mut start, mut length) = (core::ptr::null(), core::ptr::null(), 0);
        let there = crate::info::call::check_s_ok(
            "GetMetaDataStreamInfo",
            raw!(self.tables2()?, GetMetaDataStreamInfo(index, &mut name, &mut start, &mut length)),
        )?;
        // SAFETY: the runtime answers with a text in the storage's header.
        let name = unsafe { self.text(name) }.unwrap_or_default();
        // SAFETY: the runtime answers with `length` bytes, which stay as long as the scope.
        Ok(there.then_some(MetadataStream { name, data: unsafe { blob(start, length) } }))
    }
}
